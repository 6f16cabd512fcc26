"""The shard table in memory: the transitions of `domain/lease.py` under one lock. For tests and the simulation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from batch_assets.domain import lease as transitions
from batch_assets.domain.attempt import Tries
from batch_assets.domain.errors import NoSuchShard, ObjectConflict
from batch_assets.domain.lease import Lease, Outcome, ShardRow, ShardState
from batch_assets.domain.plan import Shard
from batch_assets.domain.ports import Beat, VersionCounts, WorkerRow
from resources.shard_table.rows import new_row, shards_digest


@dataclass(slots=True, kw_only=True)
class _Version:
    digest: str
    rows: dict[int, ShardRow]
    cancelled: bool = False
    tries: dict[int, dict[int, Tries]] = field(default_factory=dict)


class MemoryShardTable:
    """The `ShardTable` port for threads of one process. `clock` returns epoch seconds, asked where `now_s` is None."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._versions: dict[str, _Version] = {}
        self._workers: dict[str, WorkerRow] = {}

    def close(self) -> None:
        """Do nothing; the SQL adapter closes connections here."""

    def register(self, job: str, version: str, shards: Sequence[Shard]) -> None:
        """Add a version's shards; see the port."""
        digest = shards_digest(job, shards)
        rows = {shard.index: new_row(version, shard) for shard in sorted(shards, key=lambda shard: shard.index)}
        with self._lock:
            stands = self._versions.setdefault(version, _Version(digest=digest, rows=rows))
        if stands.digest != digest:
            raise ObjectConflict(f"version {version} is registered with other shards or for another job than {job}")

    def claim(
        self,
        version: str,
        worker: str,
        *,
        ttl_s: float,
        shards: Sequence[int] | None = None,
        now_s: float | None = None,
    ) -> Lease | None:
        """Claim the lowest claimable shard; see the port."""
        with self._lock:
            entry = self._versions.get(version)
            if entry is None:
                return None
            now = self._now(now_s)
            wanted = entry.rows.keys() if shards is None else set(shards)
            for number, row in entry.rows.items():
                if number in wanted and transitions.claimable(row, cancelled=entry.cancelled, now_s=now):
                    entry.rows[number], lease = transitions.claim(row, worker=worker, ttl_s=ttl_s, now_s=now)
                    return lease
            return None

    def renew(
        self, lease: Lease, *, results: int, dead_letters: int, ttl_s: float, now_s: float | None = None
    ) -> Lease:
        """Prolong a live lease; see the port."""
        with self._lock:
            entry, row = self._find(lease)
            now = self._now(now_s)
            entry.rows[lease.shard] = transitions.renew(
                row,
                lease,
                results=results,
                dead_letters=dead_letters,
                cancelled=entry.cancelled,
                ttl_s=ttl_s,
                now_s=now,
            )
            return replace(lease, expires_at_s=now + ttl_s)

    def release(self, lease: Lease, *, results: int, dead_letters: int, suspicious: bool = False) -> None:
        """Give a live lease back; see the port."""
        with self._lock:
            entry, row = self._find(lease)
            entry.rows[lease.shard] = transitions.release(
                row,
                lease,
                results=results,
                dead_letters=dead_letters,
                cancelled=entry.cancelled,
                suspicious=suspicious,
            )

    def absolve(self, lease: Lease) -> None:
        """Reset the unclean ends of a shard; see the port."""
        with self._lock:
            entry, row = self._find(lease)
            entry.rows[lease.shard] = transitions.absolve(row, lease)

    def expire(self, version: str, worker: str, *, now_s: float | None = None) -> int:
        """End the leases of a dead worker; see the port."""
        with self._lock:
            entry = self._versions.get(version)
            if entry is None:
                return 0
            held = [row for row in entry.rows.values() if row.state is ShardState.LEASED and row.worker == worker]
            for row in held:
                entry.rows[row.shard] = transitions.expire(row, worker=worker, now_s=self._now(now_s))
            return len(held)

    def complete(self, lease: Lease, outcome: Outcome, *, now_s: float | None = None) -> None:
        """Finish a shard; see the port."""
        with self._lock:
            entry, row = self._find(lease)
            entry.rows[lease.shard] = transitions.complete(row, lease, outcome, now_s=self._now(now_s))

    def cancel(self, version: str) -> None:
        """Stop new claims of a version; see the port."""
        self._set_cancelled(version, cancelled=True)

    def resume(self, version: str) -> None:
        """Undo a cancel; see the port."""
        self._set_cancelled(version, cancelled=False)

    def shards(self, version: str) -> list[ShardRow]:
        """Return every shard row of a version, by number; see the port."""
        with self._lock:
            entry = self._versions.get(version)
            return list(entry.rows.values()) if entry else []

    def counts(self, version: str) -> VersionCounts | None:
        """Return a version's totals; see the port."""
        with self._lock:
            entry = self._versions.get(version)
            if entry is None:
                return None
            rows, cancelled = list(entry.rows.values()), entry.cancelled
        outcomes = [row.outcome for row in rows if row.outcome]
        return VersionCounts(
            version=version,
            cancelled=cancelled,
            shards_total=len(rows),
            shards_done=sum(row.state is ShardState.DONE for row in rows),
            shards_leased=sum(row.state is ShardState.LEASED for row in rows),
            records=sum(row.records for row in rows),
            results=sum(row.results for row in rows),
            dead_letters=sum(row.dead_letters + row.refused for row in rows),
            prompt_tokens=sum(outcome.prompt_tokens for outcome in outcomes),
            cached_tokens=sum(outcome.cached_tokens for outcome in outcomes),
            output_tokens=sum(outcome.output_tokens for outcome in outcomes),
        )

    def charge(self, lease: Lease, tries: Mapping[int, Tries]) -> None:
        """Keep what records' failed tries count to now; see the port."""
        with self._lock:
            entry, shard_row = self._find(lease)
            transitions.check_live(shard_row, lease)
            entry.tries.setdefault(lease.shard, {}).update(tries)

    def tries(self, version: str, shard: int) -> dict[int, Tries]:
        """Return the failed tries of a shard's records; see the port."""
        with self._lock:
            entry = self._versions.get(version)
            return dict(sorted(entry.tries.get(shard, {}).items())) if entry else {}

    def beat(self, beat: Beat, *, now_s: float | None = None) -> None:
        """Keep a worker's last beat; see the port."""
        with self._lock:
            self._workers[beat.worker] = WorkerRow(beat=beat, beat_at_s=self._now(now_s))

    def workers(self, version: str) -> list[WorkerRow]:
        """Return the last beats of the workers whose last beat was for this version, by name; see the port."""
        with self._lock:
            rows = [row for row in self._workers.values() if row.beat.version == version]
        return sorted(rows, key=lambda row: row.beat.worker)

    def remove(self, version: str, *, idle_s: float, now_s: float | None = None) -> bool:
        """Forget a version that nobody works on; see the port."""
        with self._lock:
            now = self._now(now_s)
            entry = self._versions.get(version)
            held = [row for row in entry.rows.values() if row.state is ShardState.LEASED] if entry else []
            beats = [row.beat_at_s for row in self._workers.values() if row.beat.version == version]
            if any((row.expires_at_s or 0) > now for row in held) or any(beat > now - idle_s for beat in beats):
                return False
            self._versions.pop(version, None)
            return True

    def replace_outcome(self, version: str, shard: int, old: Outcome, new: Outcome) -> bool:
        """Say that a finished shard's objects were rewritten; see the port."""
        with self._lock:
            entry = self._versions.get(version)
            if entry is None or shard not in entry.rows:
                return False
            row = entry.rows[shard] = transitions.replace_outcome(entry.rows[shard], old, new)
            return row.outcome == new

    def _set_cancelled(self, version: str, *, cancelled: bool) -> None:
        change = transitions.cancel if cancelled else transitions.resume
        with self._lock:
            entry = self._versions.get(version)
            if entry:
                entry.cancelled = cancelled
                entry.rows = {number: change(row) for number, row in entry.rows.items()}

    def _now(self, now_s: float | None) -> float:
        return self._clock() if now_s is None else now_s

    def _find(self, lease: Lease) -> tuple[_Version, ShardRow]:
        entry = self._versions.get(lease.version)
        row = entry.rows.get(lease.shard) if entry else None
        if entry is None or row is None:
            raise NoSuchShard(f"no shard {lease.shard} of {lease.version} in this shard table")
        return entry, row
