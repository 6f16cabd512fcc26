"""What the flow asks of the outside world. Each port has a contract suite in tests/contracts over every adapter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from batch_assets.domain.attempt import Tries
from batch_assets.domain.lease import Lease, Outcome, ShardRow
from batch_assets.domain.plan import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One object of a listing. `modified_at_s` is the store's own clock, seconds since 1970."""

    key: str
    size_bytes: int
    modified_at_s: float = field(default=0.0, compare=False)


class ObjectStore(Protocol):
    """Immutable objects under keys with `/`. No call overwrites."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write `data` unless the key stands. True: written; False: the very same bytes stood (a lost answer).

        Raises:
            ObjectConflict: other bytes stand under the key.
        """
        ...

    def get(self, key: str) -> bytes:
        """Return an object's bytes.

        Raises:
            ObjectMissing: there is no such object.
        """
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """Return the object's size, or None."""
        ...

    def list(self, prefix: str) -> list[ObjectInfo]:
        """Return every object below the folder `prefix`, sorted by key."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is removed already."""
        ...

    def uri(self, key: str) -> str:
        """Return what DuckDB and Polars open: a path or an `s3://` address."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCounts:
    """A version's totals by the shard table. `dead_letters` includes the records refused at planning."""

    version: str
    cancelled: bool
    shards_total: int
    shards_done: int
    shards_leased: int
    records: int
    results: int
    dead_letters: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def pending(self) -> int:
        """Records without a committed answer or dead letter."""
        return self.records - self.results - self.dead_letters

    @property
    def done(self) -> bool:
        """Whether every shard is finished."""
        return self.shards_done == self.shards_total


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a worker says of itself at each renewal. Rates are the last interval's."""

    worker: str
    version: str
    state: str
    records: int
    records_per_s: float
    tokens_per_s: float
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker's last beat and when it came, in seconds of the table's clock."""

    beat: Beat
    beat_at_s: float


class ShardTable(Protocol):
    """Small durable state of leases. Every `now_s` is for tests; None means the database's own clock decides."""

    def register(self, job: str, version: str, shards: Sequence[Shard]) -> None:
        """Add a version's shards; a version that stands is left alone.

        Raises:
            ObjectConflict: it stands with other shards.
        """
        ...

    def claim(
        self,
        version: str,
        worker: str,
        *,
        ttl_s: float,
        shards: Sequence[int] | None = None,
        now_s: float | None = None,
    ) -> Lease | None:
        """Claim the lowest claimable shard (of `shards`, if given), epoch + 1; None if there is none now."""
        ...

    def renew(
        self, lease: Lease, *, results: int, dead_letters: int, ttl_s: float, now_s: float | None = None
    ) -> Lease:
        """Prolong a live lease, note the committed counts, return it with its new expiry.

        Raises:
            LeaseLost: the epoch is not live. ShardCancelled: it is, but the version was cancelled.
            NoSuchShard: there is no such row.
        """
        ...

    def release(self, lease: Lease, *, results: int, dead_letters: int, suspicious: bool = False) -> None:
        """Give a live lease back: claimable at once (or cancelled, if the version is). Raises as `renew`.

        With `suspicious`, the count of unclean ends stays: not all of their suspects are answered.
        """
        ...

    def absolve(self, lease: Lease) -> None:
        """Reset the unclean ends of a shard whose suspects are answered. Raises as `renew`."""
        ...

    def expire(self, version: str, worker: str, *, now_s: float | None = None) -> int:
        """End the leases of a worker that is known to be dead, uncleanly; return how many there were."""
        ...

    def complete(self, lease: Lease, outcome: Outcome, *, now_s: float | None = None) -> None:
        """Finish a shard under its live epoch; the same outcome twice is accepted. Raises as `renew`."""
        ...

    def cancel(self, version: str) -> None:
        """Stop new claims of a version; leased shards learn it at their next renewal."""
        ...

    def resume(self, version: str) -> None:
        """Undo a cancel."""
        ...

    def shards(self, version: str) -> list[ShardRow]:
        """Return every shard row of a version, by number; empty if the version is not registered."""
        ...

    def counts(self, version: str) -> VersionCounts | None:
        """Return a version's totals, or None if it is not registered."""
        ...

    def charge(self, lease: Lease, tries: Mapping[int, Tries]) -> None:
        """Keep what records' failed tries count to now, by their places in the shard: all of them, or none.

        Raises:
            LeaseLost: the epoch is not live (what a fenced worker counted does not count).
        """
        ...

    def tries(self, version: str, shard: int) -> dict[int, Tries]:
        """Return the failed tries of a shard's records, by place in the shard."""
        ...

    def beat(self, beat: Beat, *, now_s: float | None = None) -> None:
        """Keep a worker's last beat."""
        ...

    def workers(self, version: str) -> list[WorkerRow]:
        """Return the last beats of a version's workers, by name."""
        ...

    def remove(self, version: str, *, idle_s: float, now_s: float | None = None) -> bool:
        """Forget a version, unless a live lease holds a shard of it or a worker's beat for it is younger than `idle_s`.

        True: it is not in the table, so nobody can claim a shard of it or publish it until it is registered again.
        """
        ...

    def replace_outcome(self, version: str, shard: int, old: Outcome, new: Outcome) -> bool:
        """Say that a finished shard's objects were rewritten; True if it has the new outcome now.

        Nothing is changed unless the shard is done with `old`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One prompt, tokenized, under an id of our own."""

    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOutput:
    """What the model said. `finish_reason` is the engine's word (`stop`, `length`, `abort`)."""

    request_id: str
    text: str
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


class Engine(Protocol):
    """A continuous-batching engine driven by one thread; `tokens_moved` and `kill` are for a watchdog's."""

    @property
    def tokens_moved(self) -> int:
        """Tokens that the engine has given so far: liveness is this number growing while requests are in flight."""
        ...

    def kill(self, reason: str) -> None:
        """End the engine from another thread: a `step` that waits in it, and any later call, raises `EngineDead`."""
        ...

    def submit(self, request: EngineRequest) -> None:
        """Add a request.

        Raises:
            Refused: the engine does not take this request (nothing is in flight for it).
            EngineDead: the engine is gone.
        """
        ...

    def step(self) -> list[EngineOutput]:
        """Advance once and return what finished; an aborted request never comes back.

        Raises:
            EngineDead: the engine is gone.
        """
        ...

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests."""
        ...

    def close(self) -> None:
        """Stop the engine and its processes."""
        ...


class Clock(Protocol):
    """Time for waiting and for rates; never for leases."""

    def monotonic_s(self) -> float:
        """Seconds that only grow."""
        ...

    def wall_s(self) -> float:
        """Seconds since 1970, UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
