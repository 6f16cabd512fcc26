"""What the shard table reports, on every adapter: totals of a version, failed tries of records, beats of workers."""

from __future__ import annotations

import time

import pytest

from batch_assets.domain.attempt import Tries
from batch_assets.domain.errors import LeaseLost
from batch_assets.domain.ports import Beat, ShardTable, VersionCounts
from tests.contracts.shard_table_values import OUTCOME, T0, TTL_S, V, plan, take

# --- counts


def test_counts_add_up_in_the_middle_of_a_run(shard_table: ShardTable) -> None:
    """I6 by the table: records = results + dead letters (refused ones included) + pending."""
    shard_table.register("tickets", V, plan(4))
    finished = take(shard_table)
    shard_table.complete(finished, OUTCOME, now_s=T0)
    shard_table.renew(take(shard_table, "w2"), results=3, dead_letters=2, ttl_s=TTL_S, now_s=T0)
    counts = shard_table.counts(V)
    assert counts == VersionCounts(
        version=V,
        cancelled=False,
        shards_total=4,
        shards_done=1,
        shards_leased=1,
        records=40,
        results=11,
        dead_letters=4 + 1 + 2,
        prompt_tokens=5_000_000_000,
        cached_tokens=2_000,
        output_tokens=300,
    )
    assert not counts.done
    assert counts.pending == sum(row.pending_records for row in shard_table.shards(V)) == 22


# --- failed tries


def test_charges_are_kept_per_record_and_outlive_the_lease(shard_table: ShardTable) -> None:
    """The next owner reads what records have behind them; a charge says the total, so the last one stands."""
    shard_table.register("tickets", V, plan(2))
    lease = take(shard_table)
    shard_table.charge(lease, {7: Tries(own=1, failure="transient"), 2: Tries(own=1, infrastructure=4)})
    shard_table.charge(lease, {7: Tries(own=2, infrastructure=1, failure="engine_crash")})
    shard_table.charge(lease, {})
    expected = {2: Tries(own=1, infrastructure=4), 7: Tries(own=2, infrastructure=1, failure="engine_crash")}
    assert shard_table.tries(V, 0) == expected
    assert list(shard_table.tries(V, 0)) == [2, 7]
    assert shard_table.tries(V, 1) == {}
    successor = take(shard_table, "w2", now_s=T0 + 2 * TTL_S)
    assert shard_table.tries(V, successor.shard) == expected


def test_a_charge_under_a_stale_epoch_does_not_overwrite(shard_table: ShardTable) -> None:
    """What a fenced worker counted does not count, even for a record that has a row."""
    shard_table.register("tickets", V, plan(1))
    stale = take(shard_table)
    shard_table.charge(stale, {0: Tries(own=1)})
    live = take(shard_table, "w2", now_s=T0 + 2 * TTL_S)
    with pytest.raises(LeaseLost):
        shard_table.charge(stale, {0: Tries(own=3), 1: Tries(own=1)})
    assert shard_table.tries(V, 0) == {0: Tries(own=1)}
    shard_table.charge(live, {0: Tries(own=2)})
    assert shard_table.tries(V, 0) == {0: Tries(own=2)}


# --- beats


def beat(worker: str, *, version: str = V, records: int = 0) -> Beat:
    return Beat(
        worker=worker,
        version=version,
        state="running",
        records=records,
        records_per_s=1.5,
        tokens_per_s=0.1,
        detail="é",
    )


def test_the_last_beat_of_each_worker_is_kept(shard_table: ShardTable) -> None:
    """By name in code-point order, with the time of the table's clock or the given one."""
    for worker in ("w10", "a-2", "W1"):
        shard_table.beat(beat(worker), now_s=T0)
    shard_table.beat(beat("a-2", records=7), now_s=T0 + 30)
    shard_table.beat(beat("a-3", version="v-other"))
    rows = shard_table.workers(V)
    assert [row.beat.worker for row in rows] == ["W1", "a-2", "w10"]
    assert (rows[1].beat, rows[1].beat_at_s) == (beat("a-2", records=7), T0 + 30)
    assert abs(shard_table.workers("v-other")[0].beat_at_s - time.time()) < 30


def test_a_worker_that_moved_on_is_listed_where_it_is(shard_table: ShardTable) -> None:
    """A worker beats in one version at a time."""
    shard_table.beat(beat("w1"), now_s=T0)
    shard_table.beat(beat("w1", version="v-other"), now_s=T0 + 1)
    assert shard_table.workers(V) == []
    assert [row.beat.worker for row in shard_table.workers("v-other")] == ["w1"]
