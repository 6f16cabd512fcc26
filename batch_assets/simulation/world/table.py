"""The shard table as one process sees it: the production table beneath, faults between, and what stands is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from batch_assets.domain.attempt import Tries
from batch_assets.domain.errors import LeaseLost, ShardCancelled
from batch_assets.domain.lease import Lease, Outcome, ShardRow
from batch_assets.domain.plan import Shard
from batch_assets.domain.ports import Beat, ShardTable, VersionCounts, WorkerRow
from batch_assets.simulation.world.events import Charged, Claimed, Completed, Event, Refused, Released, Renewed
from batch_assets.simulation.world.seams import Seams

T = TypeVar("T")
Tell = Callable[[type[Event], dict[str, object]], None]


class WorldTable:
    """The `ShardTable` port. `tell` is called with each change at the moment it stands."""

    def __init__(self, table: ShardTable, seams: Seams, tell: Tell) -> None:
        self._table = table
        self._seams = seams
        self._tell = tell

    def register(self, job: str, version: str, shards: Sequence[Shard]) -> None:
        """Register; see the port."""
        self._table.register(job, version, shards)

    def claim(
        self,
        version: str,
        worker: str,
        *,
        ttl_s: float,
        shards: Sequence[int] | None = None,
        now_s: float | None = None,
    ) -> Lease | None:
        """Claim; see the port."""

        def call() -> Lease | None:
            lease = self._table.claim(version, worker, ttl_s=ttl_s, shards=shards, now_s=now_s)
            if lease is not None:
                self._tell(Claimed, {"lease": lease})
            return lease

        return self._seams.write("table", call)

    def renew(
        self, lease: Lease, *, results: int, dead_letters: int, ttl_s: float, now_s: float | None = None
    ) -> Lease:
        """Renew; see the port."""

        def call() -> Lease:
            counts = {"results": results, "dead_letters": dead_letters}
            renewed = self._table.renew(lease, results=results, dead_letters=dead_letters, ttl_s=ttl_s, now_s=now_s)
            self._tell(Renewed, {"lease": lease, **counts})
            return renewed

        return self._change(lease, "renew", call)

    def release(self, lease: Lease, *, results: int, dead_letters: int, suspicious: bool = False) -> None:
        """Release; see the port."""

        def call() -> None:
            self._table.release(lease, results=results, dead_letters=dead_letters, suspicious=suspicious)
            self._tell(Released, {"lease": lease, "results": results, "dead_letters": dead_letters})

        self._change(lease, "release", call)

    def complete(self, lease: Lease, outcome: Outcome, *, now_s: float | None = None) -> None:
        """Complete; see the port."""

        def call() -> None:
            self._table.complete(lease, outcome, now_s=now_s)
            self._tell(Completed, {"lease": lease, "outcome": outcome})

        self._change(lease, "complete", call)

    def absolve(self, lease: Lease) -> None:
        """Absolve; see the port."""
        self._change(lease, "absolve", lambda: self._table.absolve(lease))

    def expire(self, version: str, worker: str, *, now_s: float | None = None) -> int:
        """Expire; see the port."""
        return self._seams.write("table", lambda: self._table.expire(version, worker, now_s=now_s))

    def charge(self, lease: Lease, tries: Mapping[int, Tries]) -> None:
        """Charge; see the port."""

        def call() -> None:
            self._table.charge(lease, tries)
            for row, of_row in tries.items():
                self._tell(Charged, {"lease": lease, "row": row, "tries": of_row})

        self._change(lease, "charge", call)

    def cancel(self, version: str) -> None:
        """Cancel; see the port."""
        self._table.cancel(version)

    def resume(self, version: str) -> None:
        """Resume; see the port."""
        self._table.resume(version)

    def shards(self, version: str) -> list[ShardRow]:
        """Return the rows; see the port."""
        return self._seams.read("table", lambda: self._table.shards(version))

    def counts(self, version: str) -> VersionCounts | None:
        """Return the totals; see the port."""
        return self._seams.read("table", lambda: self._table.counts(version))

    def tries(self, version: str, shard: int) -> dict[int, Tries]:
        """Return failed tries; see the port."""
        return self._seams.read("table", lambda: self._table.tries(version, shard))

    def beat(self, beat: Beat, *, now_s: float | None = None) -> None:
        """Keep a beat; see the port."""
        self._seams.read("table", lambda: self._table.beat(beat, now_s=now_s))

    def workers(self, version: str) -> list[WorkerRow]:
        """Return the beats; see the port."""
        return self._seams.read("table", lambda: self._table.workers(version))

    def remove(self, version: str, *, idle_s: float, now_s: float | None = None) -> bool:
        """Remove; see the port."""
        return self._table.remove(version, idle_s=idle_s, now_s=now_s)

    def replace_outcome(self, version: str, shard: int, old: Outcome, new: Outcome) -> bool:
        """Replace; see the port."""
        return self._table.replace_outcome(version, shard, old, new)

    def _change(self, lease: Lease, name: str, call: Callable[[], T]) -> T:
        def told() -> T:
            try:
                return call()
            except ShardCancelled:
                raise
            except LeaseLost:
                self._tell(Refused, {"lease": lease, "call": name})
                raise

        return self._seams.write("table", told)
