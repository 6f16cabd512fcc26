"""Several workers, one shard table and a dict: whatever they do, in any order, the table says what the dict says."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from batch_assets.domain.attempt import Tries
from batch_assets.domain.errors import LeaseLost, ShardCancelled
from batch_assets.domain.lease import Lease, Outcome
from batch_assets.domain.plan import Shard
from batch_assets.domain.ports import ShardTable

RECORDS, REFUSED = 10, 2
TTL_S = 100.0
VERSIONS = itertools.count(1)

workers = st.sampled_from(["w1", "w2", "w3"])
# Committed so far, as (results, dead letters): together at most what a shard has to answer.
committed = st.integers(0, RECORDS - REFUSED).flatmap(
    lambda results: st.tuples(st.just(results), st.integers(0, RECORDS - REFUSED - results))
)


class Workers(RuleBasedStateMachine):
    """Rules act on the table and on `rows`, a dict per shard, and compare what both say."""

    table: ClassVar[ShardTable]
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.version = f"v-{next(VERSIONS):012d}"
        self.now_s = 1_000.0
        self.cancelled = False
        self.rows: list[dict[str, Any]] = []
        self.tries: dict[int, dict[int, Tries]] = {}
        self.last_epochs: list[int] = []
        self.finished: dict[int, Outcome] = {}

    @initialize(count=st.integers(1, 3))
    def register(self, count: int) -> None:
        """A version of one to three shards."""
        shards = [
            Shard(index=index, slices=(), records=RECORDS, refused=REFUSED, estimated_tokens=1)
            for index in range(count)
        ]
        self.table.register("tickets", self.version, shards)
        self.rows = [
            {"state": "pending", "worker": None, "ends": None, "epoch": 0, "unclean": 0, "results": 0, "dead": 0}
            for _ in shards
        ]
        self.last_epochs = [0] * count

    # --- what workers do; leases are kept when they are lost, so that late wakers act on them

    @rule(target=leases, worker=workers, among=st.none() | st.lists(st.integers(0, 3), max_size=3))
    def claim(self, worker: str, among: list[int] | None) -> Any:
        """The lowest free shard, or None."""
        lease = self.table.claim(self.version, worker, ttl_s=TTL_S, shards=among, now_s=self.now_s)
        free = [
            number
            for number, row in enumerate(self.rows)
            if not self.cancelled
            and (among is None or number in among)
            and (row["state"] == "pending" or (row["state"] == "leased" and row["ends"] <= self.now_s))
        ]
        if not free:
            assert lease is None
            return multiple()
        row = self.rows[free[0]]
        row["unclean"] += row["state"] == "leased"
        row.update(state="leased", worker=worker, ends=self.now_s + TTL_S, epoch=row["epoch"] + 1)
        assert lease == Lease(
            version=self.version,
            shard=free[0],
            worker=worker,
            epoch=row["epoch"],
            expires_at_s=row["ends"],
            unclean_ends=row["unclean"],
        )
        return lease

    @rule(lease=leases, counts=committed)
    def renew(self, lease: Lease, counts: tuple[int, int]) -> None:
        """Prolongs the live lease of a version that is not cancelled."""
        results, dead = counts
        try:
            renewed = self.table.renew(lease, results=results, dead_letters=dead, ttl_s=TTL_S, now_s=self.now_s)
        except ShardCancelled:
            assert self.is_live(lease)
            assert self.cancelled
        except LeaseLost:
            assert not self.is_live(lease)
        else:
            assert self.is_live(lease)
            assert not self.cancelled
            self.rows[lease.shard].update(ends=self.now_s + TTL_S, results=results, dead=dead)
            assert renewed.expires_at_s == self.now_s + TTL_S

    @rule(lease=leases, counts=committed, suspicious=st.booleans())
    def release(self, lease: Lease, counts: tuple[int, int], *, suspicious: bool) -> None:
        """Gives the live lease back; suspects that are not answered are remembered."""
        results, dead = counts
        call = lambda: self.table.release(lease, results=results, dead_letters=dead, suspicious=suspicious)  # noqa: E731
        if self.holds(lease, call):
            row = self.rows[lease.shard]
            state = "cancelled" if self.cancelled else "pending"
            row.update(state=state, worker=None, ends=None, results=results, dead=dead)
            row["unclean"] = row["unclean"] if suspicious else 0

    @rule(lease=leases)
    def absolve(self, lease: Lease) -> None:
        """Resets the unclean ends under the live epoch."""
        if self.holds(lease, lambda: self.table.absolve(lease)):
            self.rows[lease.shard]["unclean"] = 0

    @rule(worker=workers)
    def expire(self, worker: str) -> None:
        """Ends the leases of a dead worker, and of nobody else."""
        held = [row for row in self.rows if row["state"] == "leased" and row["worker"] == worker]
        assert self.table.expire(self.version, worker, now_s=self.now_s) == len(held)
        for row in held:
            row["ends"] = self.now_s

    @rule(lease=leases, dead=st.integers(0, 2))
    def complete(self, lease: Lease, dead: int) -> None:
        """Finishes under the live epoch, or repeats the very same outcome."""
        outcome = Outcome(
            results=RECORDS - REFUSED - dead,
            dead_letters=dead,
            result_key=f"shard-{lease.shard}",
            result_digest=f"{dead} dead",
            dead_key="dead" if dead else None,
            dead_digest="dead" if dead else None,
            output_tokens=7,
        )
        row = self.rows[lease.shard]
        if row["epoch"] == lease.epoch and self.finished.get(lease.shard) == outcome:
            self.table.complete(lease, outcome, now_s=self.now_s)  # the same outcome twice
        elif self.holds(lease, lambda: self.table.complete(lease, outcome, now_s=self.now_s)):
            row.update(state="done", worker=lease.worker, ends=None, results=outcome.results, dead=dead)
            self.finished[lease.shard] = outcome

    @rule(lease=leases, record=st.integers(0, 2), own=st.integers(0, 3))
    def charge(self, lease: Lease, record: int, own: int) -> None:
        """Counts under the live epoch."""
        tries = {record: Tries(own=own, infrastructure=lease.epoch, failure="transient" if own else "")}
        if self.holds(lease, lambda: self.table.charge(lease, tries)):
            self.tries.setdefault(lease.shard, {}).update(tries)

    # --- what happens to them

    @rule(seconds=st.sampled_from([TTL_S / 2, TTL_S, 3 * TTL_S]))
    def time_passes(self, seconds: float) -> None:
        """Leases may expire by it."""
        self.now_s += seconds

    @rule()
    def cancel(self) -> None:
        """Cancels what is pending."""
        self.table.cancel(self.version)
        self.cancelled = True
        for row in self.rows:
            row["state"] = "cancelled" if row["state"] == "pending" else row["state"]

    @rule()
    def resume(self) -> None:
        """Frees what was cancelled."""
        self.table.resume(self.version)
        self.cancelled = False
        for row in self.rows:
            row["state"] = "pending" if row["state"] == "cancelled" else row["state"]

    # --- what must hold after each step

    @invariant()
    def rows_are_the_dicts(self) -> None:
        """State, fence and counts of every shard; epochs never fall; a finished shard keeps its outcome."""
        rows = self.table.shards(self.version)
        said = [
            {
                "state": row.state.value,
                "worker": row.worker,
                "ends": row.expires_at_s,
                "epoch": row.epoch,
                "unclean": row.unclean_ends,
                "results": row.results,
                "dead": row.dead_letters,
            }
            for row in rows
        ]
        assert said == self.rows
        assert all(row.epoch >= last for row, last in zip(rows, self.last_epochs, strict=True))
        self.last_epochs = [row.epoch for row in rows]
        assert {row.shard: row.outcome for row in rows if row.outcome} == self.finished

    @invariant()
    def counts_add_up(self) -> None:
        """I6: records = results + dead letters + pending, and the totals are the rows'."""
        counts = self.table.counts(self.version)
        if not self.rows:
            return
        assert counts is not None
        assert counts.records == counts.results + counts.dead_letters + counts.pending == RECORDS * len(self.rows)
        assert counts.pending >= 0
        assert asdict(counts) == {
            "version": self.version,
            "cancelled": self.cancelled,
            "shards_total": len(self.rows),
            "shards_done": len(self.finished),
            "shards_leased": sum(row["state"] == "leased" for row in self.rows),
            "records": RECORDS * len(self.rows),
            "results": sum(row["results"] for row in self.rows),
            "dead_letters": sum(row["dead"] + REFUSED for row in self.rows),
            "prompt_tokens": 0,
            "cached_tokens": 0,
            "output_tokens": 7 * len(self.finished),
        }

    @invariant()
    def tries_are_kept(self) -> None:
        """Only charges under a live epoch are there."""
        for number in range(len(self.rows)):
            assert self.table.tries(self.version, number) == self.tries.get(number, {})

    def is_live(self, lease: Lease) -> bool:
        """Say whether the dict knows this lease as the live one."""
        row = self.rows[lease.shard]
        return bool(row["state"] == "leased" and row["epoch"] == lease.epoch)

    def holds(self, lease: Lease, change: Any) -> bool:
        """Apply a change; it must go through if and only if the lease is the live one."""
        try:
            change()
        except ShardCancelled as error:
            raise AssertionError("only a renewal is told of a cancel") from error
        except LeaseLost:
            assert not self.is_live(lease)
            return False
        assert self.is_live(lease)
        return True


def test_workers_on_every_adapter(shard_table: ShardTable) -> None:
    """I1, I6, I7 by the table: at most one live lease per shard, counts that add up, late wakers change nothing."""

    class OnThisTable(Workers):
        table = shard_table

    run_state_machine_as_test(
        OnThisTable,
        settings=settings(
            max_examples=15,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
