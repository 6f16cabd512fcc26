"""A shard's staging area: taking over what stands, and committing parts (I1, I7).

A lease writes `base.json` first. From then on the parts that stand are the ones it names and the ones of its own
epoch; whatever an older lease writes later is under the shard's prefix and never counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
import pyarrow as pa

from batch_assets.domain.canonical import canonical_json
from batch_assets.domain.errors import LeaseLost, ObjectConflict
from batch_assets.domain.lease import Lease
from batch_assets.domain.part import (
    Base,
    base_epochs,
    epoch_prefix,
    is_dead_part,
    shard_prefix,
    standing_parts,
)
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.spec import JobSpec
from resources.results.parquet import PART_LEVEL, fetch_parquet, write_parquet


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """What a lease starts from: its base, and the places in the shard (0-based rows) that need no more work.

    `buried` are rows with a dead letter and no result: where both stand, the result counts.
    """

    base: Base
    answered: frozenset[int]
    buried: frozenset[int]

    @property
    def parts(self) -> tuple[str, ...]:
        """Keys of the accepted parts, first committed first."""
        return self.base.accepted

    @property
    def committed(self) -> frozenset[int]:
        """Rows that are done: skip them."""
        return self.answered | self.buried


def newest_base(store: ObjectStore, keys: list[str], *, below: int | None = None) -> Base | None:
    """Return the base of the highest epoch in a shard's listing (of those below `below`), or None.

    Raises:
        ObjectMissing: it was deleted since the listing.
    """
    bases = {epoch: key for epoch, key in base_epochs(keys).items() if below is None or epoch < below}
    return Base.from_json(orjson.loads(store.get(bases[max(bases)]))) if bases else None


def visible_parts(store: ObjectStore, job: str, version: str, shard: int) -> tuple[str, ...]:
    """Return the keys of a shard's standing parts as a bystander sees them now, in order of commit."""
    keys = [item.key for item in store.list(shard_prefix(job, version, shard))]
    return standing_parts(keys, newest_base(store, keys))


def take_over(store: ObjectStore, job: str, lease: Lease) -> TakenOver:
    """Fence the shard against every older lease and return what stands; the first thing a lease does.

    Repeating it under the same lease gives the same base: an epoch is granted once, so a base of it is ours.

    Raises:
        LeaseLost: a newer lease has taken the shard over already.
        ObjectDamaged: a part that stands is not readable.
    """
    base = _own_base(store, job, lease)
    answered: set[int] = set()
    buried: set[int] = set()
    for key in base.accepted:
        rows = fetch_parquet(store, key, ["row"]).column("row").to_pylist()
        (buried if is_dead_part(key) else answered).update(rows)
    return TakenOver(base=base, answered=frozenset(answered), buried=frozenset(buried - answered))


def _own_base(store: ObjectStore, job: str, lease: Lease) -> Base:
    keys = [item.key for item in store.list(shard_prefix(job, lease.version, lease.shard))]
    epochs = base_epochs(keys)
    if max(epochs, default=0) > lease.epoch:
        raise LeaseLost(
            f"{lease.worker} holds shard {lease.shard} of {lease.version} under epoch {lease.epoch}; "
            f"epoch {max(epochs)} has taken it over"
        )
    own_key = f"{epoch_prefix(job, lease.version, lease.shard, lease.epoch)}/base.json"
    if own_key not in keys:
        accepted = standing_parts(keys, newest_base(store, keys, below=lease.epoch))
        base = Base(epoch=lease.epoch, accepted=accepted)
        try:
            store.put_if_absent(own_key, canonical_json(base.to_json()).encode())
        except ObjectConflict:
            pass  # an earlier try of ours landed after our listing, and saw fewer parts: it binds
        else:
            return base
    return Base.from_json(orjson.loads(store.get(own_key)))


class PartWriter:
    """Commits the parts of one lease, numbered from 0; results and dead letters are numbered apart.

    A number is never used twice, not even after a put that failed: such a put may have landed. Rows that are then
    committed again stand in two parts, and the merge takes the first.
    """

    def __init__(self, store: ObjectStore, spec: JobSpec, lease: Lease) -> None:
        self._store = store
        self._prefix = epoch_prefix(spec.name, lease.version, lease.shard, lease.epoch)
        self._footer = {**provenance_footer(spec, lease.version), "shard": str(lease.shard), "epoch": str(lease.epoch)}
        self._next = {"part": 0, "dead": 0}
        self.keys: list[str] = []

    def commit(self, results: pa.Table) -> str:
        """Commit a table of `result_schema`; it stands when this returns. Returns its key.

        Raises:
            ObjectConflict: other bytes stand under the key: somebody else holds this epoch (a bug).
        """
        return self._put("part", results)

    def bury(self, dead_letters: pa.Table) -> str:
        """Commit a table of `DEAD_LETTER_SCHEMA`, as `commit`."""
        return self._put("dead", dead_letters)

    def _put(self, kind: str, table: pa.Table) -> str:
        number = self._next[kind]
        self._next[kind] += 1
        key = f"{self._prefix}/{kind}-{number:05d}.parquet"
        self._store.put_if_absent(key, write_parquet(table, footer=self._footer, level=PART_LEVEL))
        self.keys.append(key)
        return key


def provenance_footer(spec: JobSpec, version: str) -> dict[str, str]:
    """Return what every Parquet object of a version says of its making, beside the rows' own columns."""
    return {
        "job": spec.name,
        "job_version": version,
        "recipe_digest": spec.recipe_digest,
        "model_digest": spec.model.digest,
    }
