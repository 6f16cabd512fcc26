"""Every error of the project, as one tree: what happened decides what is done, never the text.

BatchError
UserError                 somebody's mistake; shown without a traceback, exit code 2
  InvalidSpec             a job's declaration
  InputError              a source that cannot be a snapshot (missing, empty, corrupt, mixed, no such column)
  UnknownVersion          no such job, version, shard or release
  InvalidSettings         the environment's configuration
GateRefused               a check stands against publishing; exit code 3
ReleaseRaced              another publisher took the next sequence number
BaseMoved                 current is not the release any more that a delta was compared with
RecordInWork              a record that is to be forgotten is still being answered
LeaseLost                 the live epoch of a shard is not ours: stop, write nothing
  ShardCancelled          the version was cancelled while we held the shard
NoSuchShard               the shard table does not know it (a bug or a wrong database, never a lost lease)
ObjectMissing             an object that must be there is not
ObjectConflict            an object stands under the key with other content
StoreFull                 the result store has no room; nothing was written
StoreUnavailable          the result store stays away, or refuses us, longer than each call waits for it
InvalidKey                a key that no store may hold (it would leave the store's root)
ObjectDamaged             an object's bytes are not what its digest or its format says
ConservationBroken        records do not add up (invariant I6); nothing is finished on such a count
RecipeMixed               rows of another version, recipe or model among a version's parts (invariant I2)
Permanent                 no retry can help; a worker exits 42
  ModelDigestMismatch     a model file is not the one the spec pins
  SnapshotChanged         a source object is not the one the snapshot names
  EngineUnusable          the engine refuses the spec, or died too often
EngineDead                the engine is gone with requests in flight; a new one may work
"""

from __future__ import annotations


class BatchError(Exception):
    """The root: nothing else is raised on purpose."""


class UserError(BatchError):
    """A mistake that the user can correct: the message says which thing, why, and what to do."""


class InvalidSpec(UserError):
    """A job's declaration is wrong; the message begins with the file or the field's name."""


class InputError(UserError):
    """A source that cannot become a snapshot; the message names the file or column."""


class UnknownVersion(UserError):
    """A job, version, shard or release that is not registered."""


class InvalidSettings(UserError):
    """A setting (environment variable) with a value that cannot work."""


class GateRefused(BatchError):
    """Publishing is refused: the message says which check, with its numbers."""


class ReleaseRaced(BatchError):
    """Another publisher appended the release that we wanted to append; nothing was changed by us."""


class BaseMoved(BatchError):
    """A delta does not fit: something was published since the release that it was compared with."""


class RecordInWork(BatchError):
    """A deletion request for a record that an unfinished version holds: nothing was changed."""


class LeaseLost(BatchError):
    """The lease that a state change named is not the live one: the holder must stop and write nothing."""


class ShardCancelled(LeaseLost):
    """The lease is live but its version was cancelled: commit what is finished, then release."""


class NoSuchShard(BatchError):
    """The shard table has no row for this shard: a wrong database or a bug, never a lost lease."""


class ShardTableUnavailable(BatchError):
    """The shard table's database stayed away longer than each call waits for it."""


class ObjectMissing(BatchError):
    """An object that the registry or a release names is not in the store."""


class ObjectConflict(BatchError):
    """A conditional PUT found other content under the key: never overwritten, never ignored."""


class StoreFull(BatchError):
    """The result store has no room for an object: nothing of it was written; the message says where to make room."""


class StoreUnavailable(BatchError):
    """The result store stayed away, or refused us, longer than each call waits for it; another try may work."""


class InvalidKey(BatchError):
    """A key that no store may hold: it would leave the store's root, or not come back as it went in."""


class ObjectDamaged(BatchError):
    """An object is there, but its bytes are not the ones its digest names, or cannot be read as their format."""


class ConservationBroken(BatchError):
    """Results, dead letters and pending records do not add up to the snapshot (I6)."""


class RecipeMixed(BatchError):
    """A version's parts hold rows that another version, recipe or model made (I2); nothing is finished on them."""


class Permanent(BatchError):
    """A worker's error that no retry can mend: exit code 42, and the fleet is not restarted."""


class ModelDigestMismatch(Permanent):
    """The local model folder is not the one pinned by digest; the message names the file."""


class SnapshotChanged(Permanent):
    """A source object differs from what the snapshot recorded; the message names it."""


class EngineUnusable(Permanent):
    """The engine cannot run this spec at all, or died more often than a worker's bound."""


class EngineDead(BatchError):
    """The engine stopped with requests in flight; their records are suspects, not guilty."""
