"""The contract of the shard table, on every adapter. Times are given, so nothing waits and nothing can be flaky."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from batch_assets.domain.attempt import Tries
from batch_assets.domain.errors import LeaseLost, NoSuchShard, ObjectConflict, ShardCancelled
from batch_assets.domain.lease import Lease, Outcome, ShardState
from batch_assets.domain.plan import Shard
from batch_assets.domain.ports import ShardTable
from tests.contracts.shard_table_values import OUTCOME, T0, TTL_S, V, plan, take


def states(table: ShardTable) -> list[ShardState]:
    return [row.state for row in table.shards(V)]


# --- registration


def test_a_registered_version_lists_its_shards_in_order(shard_table: ShardTable) -> None:
    """Shards come back by number with what the plan said, pending, at epoch 0."""
    shard_table.register("tickets", V, list(reversed(plan(12))))
    rows = shard_table.shards(V)
    assert [row.shard for row in rows] == list(range(12))
    assert {(row.state, row.epoch, row.records, row.refused, row.estimated_tokens) for row in rows} == {
        (ShardState.PENDING, 0, 10, 1, 1000)
    }
    assert rows[0].outcome is None
    assert rows[0].pending_records == 9


def test_registering_twice_changes_nothing(shard_table: ShardTable) -> None:
    """A second registration, even of a version in work, is a no-op."""
    shard_table.register("tickets", V, plan(2))
    lease = take(shard_table)
    shard_table.register("tickets", V, plan(2))
    assert shard_table.shards(V)[0].epoch == lease.epoch
    assert states(shard_table) == [ShardState.LEASED, ShardState.PENDING]


@pytest.mark.parametrize(
    "other",
    [plan(3), plan(2, refused=2), [replace(shard, slices=()) for shard in plan(2)]],
    ids=["n", "counts", "rows"],
)
def test_a_version_that_stands_with_other_shards_is_a_conflict(shard_table: ShardTable, other: list[Shard]) -> None:
    """Another number of shards, other counts or other rows: refused, and the first plan stands."""
    shard_table.register("tickets", V, plan(2))
    with pytest.raises(ObjectConflict, match=V):
        shard_table.register("tickets", V, other)
    assert [row.refused for row in shard_table.shards(V)] == [1, 1]


def test_a_version_of_another_job_is_a_conflict(shard_table: ShardTable) -> None:
    """A version belongs to one job."""
    shard_table.register("tickets", V, plan(1))
    with pytest.raises(ObjectConflict):
        shard_table.register("contracts", V, plan(1))


def test_an_unknown_version_has_nothing(shard_table: ShardTable) -> None:
    """Reads of what is not registered are empty, claims get nothing, cancel and resume change nothing."""
    shard_table.cancel("v-none")
    shard_table.resume("v-none")
    assert shard_table.shards("v-none") == []
    assert shard_table.counts("v-none") is None
    assert shard_table.claim("v-none", "w1", ttl_s=TTL_S, now_s=T0) is None
    assert shard_table.tries("v-none", 0) == {}
    assert shard_table.workers("v-none") == []


def test_a_version_without_shards_is_done(shard_table: ShardTable) -> None:
    """An empty plan counts to nothing, and is registered all the same."""
    shard_table.register("tickets", V, [])
    counts = shard_table.counts(V)
    assert counts is not None
    assert counts.done
    assert counts.records == counts.pending == 0


# --- claim


def test_claims_take_the_lowest_shard_and_raise_its_epoch(shard_table: ShardTable) -> None:
    """Two claims, two shards, then none; the lease says when it ends."""
    shard_table.register("tickets", V, plan(2))
    first = take(shard_table, "w1")
    assert first == Lease(version=V, shard=0, worker="w1", epoch=1, expires_at_s=T0 + TTL_S)
    assert take(shard_table, "w2").shard == 1
    assert shard_table.claim(V, "w3", ttl_s=TTL_S, now_s=T0) is None
    row = shard_table.shards(V)[0]
    assert (row.state, row.worker, row.expires_at_s, row.epoch) == (ShardState.LEASED, "w1", T0 + TTL_S, 1)


def test_a_claim_among_given_shards_takes_no_other(shard_table: ShardTable) -> None:
    """`shards` bounds a claim; numbers that are not there, and an empty list, give nothing."""
    shard_table.register("tickets", V, plan(6))
    for expected in (2, 4, None):
        lease = shard_table.claim(V, "w1", ttl_s=TTL_S, shards=[4, 2, 99], now_s=T0)
        assert (lease.shard if lease else None) == expected
    assert shard_table.claim(V, "w1", ttl_s=TTL_S, shards=[], now_s=T0) is None


@pytest.mark.parametrize("step", [1, 2], ids=["one run", "every second"])
def test_a_claim_among_100_000_numbers(shard_table: ShardTable, step: int) -> None:
    """No limit on variables or depth of an expression is in the way of the largest plan."""
    shard_table.register("tickets", V, plan(5))
    numbers = range(3, 3 + 100_000 * step, step)
    lease = shard_table.claim(V, "w1", ttl_s=TTL_S, shards=numbers, now_s=T0)
    assert lease is not None
    assert lease.shard == 3


def test_an_expired_lease_is_claimed_at_the_moment_it_ends(shard_table: ShardTable) -> None:
    """One instant before, nobody can have it; at its end anybody can, under the next epoch, as an unclean end."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    assert shard_table.claim(V, "w2", ttl_s=TTL_S, now_s=lease.expires_at_s - 0.001) is None
    taken = shard_table.claim(V, "w2", ttl_s=TTL_S, now_s=lease.expires_at_s)
    assert taken is not None
    assert (taken.shard, taken.epoch, taken.unclean_ends) == (0, 2, 1)
    again = take(shard_table, "w3", now_s=T0 + 10 * TTL_S)
    assert (again.epoch, again.unclean_ends) == (3, 2)


def test_the_tables_own_clock_decides_where_no_time_is_given(shard_table: ShardTable) -> None:
    """Without `now_s`, expiry is seconds since 1970 by the table's clock, within the few seconds of this test."""
    shard_table.register("tickets", V, plan(1))
    lease = shard_table.claim(V, "w1", ttl_s=TTL_S)
    assert lease is not None
    assert abs(lease.expires_at_s - TTL_S - time.time()) < 30
    renewed = shard_table.renew(lease, results=0, dead_letters=0, ttl_s=2 * TTL_S)
    assert 0 <= renewed.expires_at_s - lease.expires_at_s - TTL_S < 30
    assert shard_table.claim(V, "w2", ttl_s=TTL_S) is None


def test_a_lease_expires_by_the_tables_own_clock(shard_table: ShardTable) -> None:
    """A lease given out in 1970 has expired today, and one that ends in a minute has not."""
    shard_table.register("tickets", V, plan(1))
    shard_table.claim(V, "w1", ttl_s=1, now_s=0)
    taken = shard_table.claim(V, "w2", ttl_s=60)
    assert taken is not None
    assert taken.unclean_ends == 1
    assert shard_table.claim(V, "w3", ttl_s=60) is None


# --- renew, release, complete


def test_a_renewal_prolongs_and_notes_counts(shard_table: ShardTable) -> None:
    """The lease comes back with its new end; counts show at once."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    renewed = shard_table.renew(lease, results=5, dead_letters=2, ttl_s=TTL_S, now_s=T0 + 30)
    assert renewed == replace(lease, expires_at_s=T0 + 30 + TTL_S)
    row = shard_table.shards(V)[0]
    assert (row.results, row.dead_letters, row.pending_records) == (5, 2, 2)


def test_a_lease_that_expired_unclaimed_can_be_renewed(shard_table: ShardTable) -> None:
    """A worker that slept past its lease goes on if nobody took the shard: its epoch is still the live one."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    late = lease.expires_at_s + 3600
    assert shard_table.renew(lease, results=1, dead_letters=0, ttl_s=TTL_S, now_s=late).expires_at_s == late + TTL_S
    assert shard_table.claim(V, "w2", ttl_s=TTL_S, now_s=late) is None


def test_a_released_shard_is_claimable_at_once_and_clean(shard_table: ShardTable) -> None:
    """A drained worker's shard waits for no expiry, keeps its counts, and carries no suspicion."""
    shard_table.register("tickets", V, plan(1))
    take(shard_table)
    second = take(shard_table, "w2", now_s=T0 + 2 * TTL_S)
    shard_table.release(second, results=4, dead_letters=1)
    row = shard_table.shards(V)[0]
    assert (row.state, row.worker, row.expires_at_s, row.results) == (ShardState.PENDING, None, None, 4)
    with pytest.raises(LeaseLost, match="pending"):
        shard_table.release(second, results=4, dead_letters=1)
    third = take(shard_table, "w3", now_s=T0 + 2 * TTL_S)
    assert (third.epoch, third.unclean_ends) == (3, 0)
    with pytest.raises(LeaseLost):
        shard_table.release(second, results=4, dead_letters=1)


def test_a_completed_shard_keeps_its_outcome_and_is_final(shard_table: ShardTable) -> None:
    """Done shows the outcome, when and by whom; nothing claims it again, however late."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    shard_table.complete(lease, OUTCOME, now_s=T0 + 60)
    row = shard_table.shards(V)[0]
    assert (row.state, row.outcome, row.finished_at_s) == (ShardState.DONE, OUTCOME, T0 + 60)
    assert (row.worker, row.expires_at_s, row.epoch) == ("w1", None, 1)
    assert shard_table.claim(V, "w2", ttl_s=TTL_S, now_s=T0 + 99 * TTL_S) is None


def test_completing_twice_with_the_same_outcome_is_accepted(shard_table: ShardTable) -> None:
    """A lost answer may be asked for again; the first time stands. Another outcome is another story."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    shard_table.complete(lease, OUTCOME, now_s=T0 + 60)
    shard_table.complete(lease, OUTCOME, now_s=T0 + 90)
    assert shard_table.shards(V)[0].finished_at_s == T0 + 60
    with pytest.raises(LeaseLost):
        shard_table.complete(lease, replace(OUTCOME, result_digest="sha256:cc"), now_s=T0 + 90)
    with pytest.raises(LeaseLost):
        shard_table.complete(replace(lease, epoch=0), OUTCOME, now_s=T0 + 90)
    with pytest.raises(LeaseLost):
        shard_table.renew(lease, results=0, dead_letters=0, ttl_s=TTL_S, now_s=T0 + 90)


def test_an_outcome_without_dead_letters_comes_back_as_it_was(shard_table: ShardTable) -> None:
    """Optional fields stay empty, so that the same outcome is recognized."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    bare = Outcome(results=9, dead_letters=0, result_key="k", result_digest="d")
    shard_table.complete(lease, bare)
    shard_table.complete(lease, bare)
    assert shard_table.shards(V)[0].outcome == bare


Change = Callable[[ShardTable, Lease], object]
CHANGES: dict[str, Change] = {
    "renew": lambda table, lease: table.renew(lease, results=9, dead_letters=0, ttl_s=TTL_S, now_s=T0),
    "release": lambda table, lease: table.release(lease, results=9, dead_letters=0),
    "complete": lambda table, lease: table.complete(lease, OUTCOME, now_s=T0),
    "charge": lambda table, lease: table.charge(lease, {3: Tries(own=1)}),
    "absolve": lambda table, lease: table.absolve(lease),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_paused_worker_that_wakes_late_changes_nothing(shard_table: ShardTable, change: str) -> None:
    """Incident: a worker stalls past its lease, another takes the shard, the first wakes and goes on (I7)."""
    shard_table.register("tickets", V, plan(1))
    sleeper = take(shard_table, "sleeper")
    successor = take(shard_table, "successor", now_s=sleeper.expires_at_s)
    before = shard_table.shards(V)
    with pytest.raises(LeaseLost, match="epoch 2") as raised:
        CHANGES[change](shard_table, sleeper)
    assert not isinstance(raised.value, ShardCancelled)
    assert shard_table.shards(V) == before
    assert shard_table.tries(V, 0) == {}
    shard_table.complete(successor, OUTCOME, now_s=T0 + 2 * TTL_S)
    with pytest.raises(LeaseLost, match="done"):
        CHANGES[change](shard_table, sleeper)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("wrong", ["version", "shard"])
def test_a_row_that_is_not_there_is_never_a_lost_lease(shard_table: ShardTable, change: str, wrong: str) -> None:
    """A wrong database must not look like a fenced worker."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    elsewhere = replace(lease, version="v-none") if wrong == "version" else replace(lease, shard=7)
    with pytest.raises(NoSuchShard):
        CHANGES[change](shard_table, elsewhere)


# --- cancel and resume


def test_a_cancelled_version_gives_out_nothing(shard_table: ShardTable) -> None:
    """Pending shards are cancelled, and an expired lease is not claimable either; another version is untouched."""
    other = "v-000000000002"
    shard_table.register("tickets", V, plan(2))
    shard_table.register("tickets", other, plan(1))
    take(shard_table)
    shard_table.cancel(V)
    shard_table.cancel(V)
    assert states(shard_table) == [ShardState.LEASED, ShardState.CANCELLED]
    assert shard_table.claim(V, "w2", ttl_s=TTL_S, now_s=T0 + 2 * TTL_S) is None
    assert shard_table.claim(other, "w2", ttl_s=TTL_S, now_s=T0) is not None
    counts = shard_table.counts(V)
    assert counts is not None
    assert counts.cancelled


def test_a_lease_holder_learns_of_a_cancel_and_can_still_let_go(shard_table: ShardTable) -> None:
    """Renewal says ShardCancelled and notes nothing; release keeps what was committed and leaves it cancelled."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    shard_table.cancel(V)
    with pytest.raises(ShardCancelled):
        shard_table.renew(lease, results=5, dead_letters=0, ttl_s=TTL_S, now_s=T0)
    assert shard_table.shards(V)[0].results == 0
    shard_table.charge(lease, {3: Tries(own=1)})
    shard_table.release(lease, results=5, dead_letters=0)
    row = shard_table.shards(V)[0]
    assert (row.state, row.results) == (ShardState.CANCELLED, 5)
    with pytest.raises(LeaseLost) as raised:
        shard_table.renew(lease, results=5, dead_letters=0, ttl_s=TTL_S, now_s=T0)
    assert not isinstance(raised.value, ShardCancelled)


def test_a_shard_finished_after_the_cancel_is_accepted(shard_table: ShardTable) -> None:
    """Finished work is not thrown away: the epoch is live."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table)
    shard_table.cancel(V)
    shard_table.complete(lease, OUTCOME, now_s=T0)
    shard_table.resume(V)
    assert states(shard_table) == [ShardState.DONE]


def test_a_resume_makes_cancelled_shards_claimable(shard_table: ShardTable) -> None:
    """Committed counts and epochs stay; a lease that was held all along goes on."""
    shard_table.register("tickets", V, plan(3))
    released, held = take(shard_table, "w1"), take(shard_table, "w2")
    shard_table.cancel(V)
    shard_table.release(released, results=5, dead_letters=0)
    shard_table.resume(V)
    shard_table.resume(V)
    assert states(shard_table) == [ShardState.PENDING, ShardState.LEASED, ShardState.PENDING]
    shard_table.renew(held, results=1, dead_letters=0, ttl_s=TTL_S, now_s=T0)
    again = take(shard_table, "w3")
    assert (again.shard, again.epoch) == (0, 2)
    assert shard_table.shards(V)[0].results == 5
