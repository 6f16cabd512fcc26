"""The shard table on SQLite and PostgreSQL. Statements are in `statements.py`, the meaning in `domain/lease.py`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, insert, select

from batch_assets.domain import lease as transitions
from batch_assets.domain.attempt import Tries
from batch_assets.domain.errors import NoSuchShard, ObjectConflict, ShardCancelled
from batch_assets.domain.lease import Lease, Outcome, ShardRow, ShardState
from batch_assets.domain.plan import Shard
from batch_assets.domain.ports import Beat, VersionCounts, WorkerRow
from resources.shard_table import statements
from resources.shard_table.retry import retried
from resources.shard_table.rows import shards_digest, to_counts, to_shard_row, to_tries, to_values, to_worker_row
from resources.shard_table.tables import SHARD, TRIES, VERSION, WORKER

T = TypeVar("T")


class SqlShardTable:
    """The `ShardTable` port over a database that `connect.open_shard_table` opened and migrated.

    Every call is one short transaction, sent again for up to `retry_for_s` while the database is away or locked;
    then it raises `ShardTableUnavailable`. On PostgreSQL a call of one statement commits by itself: a worker that
    stalls between two messages keeps no row locked. A try whose answer was lost may have gone through, so each call may
    be sent twice: a claim finds its lease again by the token it carried, a release accepts that its epoch is released,
    the others say absolute values. (Where a server still works on the lost try, a claim can take a second shard;
    the first one's lease expires then.) Safe to share between threads, not across a fork.
    """

    def __init__(self, engine: Engine, *, retry_for_s: float = 60.0) -> None:
        self._engine = engine
        self._readers = engine.execution_options(sqlite_begin="BEGIN")
        self._transactions = engine.execution_options(postgresql_whole=True)
        self._dialect = engine.dialect.name
        self._retry_for_s = retry_for_s

    def close(self) -> None:
        """Close the pooled connections."""
        self._engine.dispose()

    def register(self, job: str, version: str, shards: Sequence[Shard]) -> None:
        """Add a version's shards; see the port."""
        digest = shards_digest(job, shards)
        rows = [to_values(version, shard) for shard in shards]

        def work(db: Connection, _attempt: int) -> str:
            added = db.execute(statements.add_version(self._dialect, job=job, version=version, digest=digest)).first()
            if added is None:
                return str(db.execute(select(VERSION.c.shards_digest).where(VERSION.c.version == version)).scalar_one())
            if rows:
                db.execute(insert(SHARD), rows)
                for statement in statements.after_registration(self._dialect):
                    db.execute(statement)
            return digest

        if self._write(work, whole=True) != digest:
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
        if shards is not None and not shards:
            return None
        token = uuid.uuid4().hex
        statement = statements.claim(
            self._dialect, version=version, worker=worker, token=token, ttl_s=ttl_s, shards=shards, now_s=now_s
        )

        def work(db: Connection, attempt: int) -> Any:
            ours = db.execute(statements.claimed_under(version, token)).mappings().first() if attempt > 1 else None
            return ours or db.execute(statement).mappings().first()

        row = self._write(work)
        return Lease(version=version, **row) if row else None

    def renew(
        self, lease: Lease, *, results: int, dead_letters: int, ttl_s: float, now_s: float | None = None
    ) -> Lease:
        """Prolong a live lease; see the port."""
        statement = statements.renew(lease, results=results, dead_letters=dead_letters, ttl_s=ttl_s, now_s=now_s)

        def work(db: Connection, _attempt: int) -> float:
            expires_at_s = db.execute(statement).scalar_one_or_none()
            if expires_at_s is None:
                transitions.check_live(_row(db, lease), lease)
                # The epoch is live, and was: only a cancel keeps a renewal of it from changing the row.
                raise ShardCancelled(f"version {lease.version} was cancelled")
            return float(expires_at_s)

        return replace(lease, expires_at_s=self._write(work))

    def release(self, lease: Lease, *, results: int, dead_letters: int, suspicious: bool = False) -> None:
        """Give a live lease back; see the port."""
        statement = statements.release(lease, results=results, dead_letters=dead_letters, suspicious=suspicious)

        def work(db: Connection, attempt: int) -> None:
            if db.execute(statement).first() is None:
                row = _row(db, lease)
                # Only this lease's release leads to these states under its epoch: the lost try went through.
                given_back = row.state in {ShardState.PENDING, ShardState.CANCELLED} and row.epoch == lease.epoch
                if attempt == 1 or not given_back:
                    transitions.check_live(row, lease)

        self._write(work)

    def complete(self, lease: Lease, outcome: Outcome, *, now_s: float | None = None) -> None:
        """Finish a shard; see the port."""
        statement = statements.complete(lease, outcome, now_s=now_s)

        def work(db: Connection, _attempt: int) -> None:
            if db.execute(statement).first() is None:
                transitions.complete(_row(db, lease), lease, outcome, now_s=0.0)

        self._write(work)

    def cancel(self, version: str) -> None:
        """Stop new claims of a version; see the port."""
        self._set_cancelled(version, cancelled=True)

    def resume(self, version: str) -> None:
        """Undo a cancel; see the port."""
        self._set_cancelled(version, cancelled=False)

    def shards(self, version: str) -> list[ShardRow]:
        """Return every shard row of a version, by number; see the port."""
        statement = select(SHARD).where(SHARD.c.version == version).order_by(SHARD.c.shard)
        return [to_shard_row(row) for row in self._read(lambda db: db.execute(statement).mappings().all())]

    def counts(self, version: str) -> VersionCounts | None:
        """Return a version's totals; see the port."""
        row = self._read(lambda db: db.execute(statements.counts(version)).mappings().first())
        return to_counts(row) if row else None

    def absolve(self, lease: Lease) -> None:
        """Reset the unclean ends of a shard; see the port."""
        statement = statements.absolve(lease)

        def work(db: Connection, _attempt: int) -> None:
            if db.execute(statement).first() is None:
                transitions.check_live(_row(db, lease), lease)

        self._write(work)

    def expire(self, version: str, worker: str, *, now_s: float | None = None) -> int:
        """End the leases of a dead worker; see the port."""
        statement = statements.expire(version, worker, now_s=now_s)
        return len(self._write(lambda db, _attempt: db.execute(statement).all()))

    def charge(self, lease: Lease, tries: Mapping[int, Tries]) -> None:
        """Keep what records' failed tries count to now; see the port."""
        if not tries:
            return
        place = {"version": lease.version, "shard": lease.shard}
        rows = [{**place, "row": row, **asdict(of_row)} for row, of_row in tries.items()]

        def work(db: Connection, _attempt: int) -> None:
            if db.execute(statements.hold(lease)).first() is None:
                transitions.check_live(_row(db, lease), lease)
            db.execute(statements.charge(self._dialect), rows)

        self._write(work, whole=True)

    def tries(self, version: str, shard: int) -> dict[int, Tries]:
        """Return the failed tries of a shard's records; see the port."""
        statement = select(TRIES).where(TRIES.c.version == version, TRIES.c.shard == shard).order_by(TRIES.c.row)
        rows = self._read(lambda db: db.execute(statement).mappings().all())
        return {row["row"]: to_tries(row) for row in rows}

    def beat(self, beat: Beat, *, now_s: float | None = None) -> None:
        """Keep a worker's last beat; see the port."""
        statement = statements.beat(self._dialect, beat, now_s=now_s)
        self._write(lambda db, _attempt: db.execute(statement))

    def workers(self, version: str) -> list[WorkerRow]:
        """Return the last beats of the workers whose last beat was for this version, by name; see the port."""
        statement = select(WORKER).where(WORKER.c.version == version)
        rows = self._read(lambda db: db.execute(statement).mappings().all())
        # Sorted here: a database sorts text by its own collation.
        return sorted((to_worker_row(row) for row in rows), key=lambda row: row.beat.worker)

    def remove(self, version: str, *, idle_s: float, now_s: float | None = None) -> bool:
        """Forget a version that nobody works on; see the port."""

        def work(db: Connection, _attempt: int) -> bool:
            # The version's row first, as a cancel does; then no claim can begin on the rows that are held.
            db.execute(statements.hold_version(version)).first()
            held = db.execute(statements.hold_open_shards(version, now_s=now_s)).scalars().all()
            if any(held) or db.execute(statements.beats_since(version, idle_s=idle_s, now_s=now_s)).first():
                return False
            for statement in statements.remove(version):
                db.execute(statement)
            return True

        return self._write(work)

    def replace_outcome(self, version: str, shard: int, old: Outcome, new: Outcome) -> bool:
        """Say that a finished shard's objects were rewritten; see the port."""

        def work(db: Connection, _attempt: int) -> bool:
            db.execute(statements.replace_outcome(version, shard, old, new))
            row = db.execute(statements.shard_row(version, shard)).mappings().first()
            return row is not None and to_shard_row(row).outcome == new

        return self._write(work)

    def _set_cancelled(self, version: str, *, cancelled: bool) -> None:
        def work(db: Connection, _attempt: int) -> None:
            for statement in statements.set_cancelled(version, cancelled=cancelled):
                db.execute(statement)

        self._write(work, whole=True)

    def _write(self, work: Callable[[Connection, int], T], *, whole: bool = False) -> T:
        """Change something; `whole`: by several statements, all or none of which happen."""
        engine = self._transactions if whole else self._engine

        def transaction(attempt: int) -> T:
            with engine.begin() as db:
                return work(db, attempt)

        return retried(transaction, retry_for_s=self._retry_for_s)

    def _read(self, work: Callable[[Connection], T]) -> T:
        def transaction(_attempt: int) -> T:
            with self._readers.begin() as db:
                return work(db)

        return retried(transaction, retry_for_s=self._retry_for_s)


def _row(db: Connection, lease: Lease) -> ShardRow:
    """Return what stands where a lease no longer fits.

    Raises:
        NoSuchShard: nothing does.
    """
    row = db.execute(statements.shard_row(lease.version, lease.shard)).mappings().first()
    if row is None:
        raise NoSuchShard(f"no shard {lease.shard} of {lease.version} in this shard table")
    return to_shard_row(row)
