"""Removing a version and rewriting a finished shard's objects, on every adapter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batch_assets.domain.attempt import Tries
from batch_assets.domain.errors import NoSuchShard
from batch_assets.domain.lease import ShardState
from batch_assets.domain.ports import Beat, ShardTable
from tests.contracts.shard_table_values import OUTCOME, T0, TTL_S, V, plan, take

OTHER = "v-000000000002"
IDLE_S = 1_000.0


def beat(version: str) -> Beat:
    return Beat(worker=f"w-{version}", version=version, state="x", records=0, records_per_s=0, tokens_per_s=0)


def remove(table: ShardTable, version: str = V, *, now_s: float = T0) -> bool:
    return table.remove(version, idle_s=IDLE_S, now_s=now_s)


def test_a_removed_version_is_not_there(shard_table: ShardTable) -> None:
    """Rows, counts and tries are gone; another version stays; a second time and an unknown version are no-ops."""
    for version in (V, OTHER):
        shard_table.register("tickets", version, plan(2))
    lease = take(shard_table)
    shard_table.charge(lease, {3: Tries(own=1, infrastructure=0, failure="transient")})
    shard_table.complete(lease, OUTCOME, now_s=T0)
    assert remove(shard_table)
    assert shard_table.shards(V) == []
    assert shard_table.counts(V) is None
    assert shard_table.tries(V, 0) == {}
    assert shard_table.claim(V, "w2", ttl_s=TTL_S, now_s=T0) is None
    assert len(shard_table.shards(OTHER)) == 2
    assert remove(shard_table)
    assert remove(shard_table, "v-none")
    shard_table.register("tickets", V, plan(3))
    assert [row.state for row in shard_table.shards(V)] == [ShardState.PENDING] * 3


def test_a_version_in_work_is_not_removed(shard_table: ShardTable) -> None:
    """A live lease keeps it, to the moment it ends; whoever held it then is told."""
    shard_table.register("tickets", V, plan(2))
    lease = take(shard_table)
    assert not remove(shard_table, now_s=T0 + TTL_S - 1)
    assert len(shard_table.shards(V)) == 2
    assert remove(shard_table, now_s=T0 + TTL_S)
    with pytest.raises(NoSuchShard):
        shard_table.renew(lease, results=0, dead_letters=0, ttl_s=TTL_S, now_s=T0 + TTL_S)


def test_a_version_that_was_worked_on_lately_is_not_removed(shard_table: ShardTable) -> None:
    """A beat that is younger than `idle_s` keeps its version, and no other one."""
    for version in (V, OTHER):
        shard_table.register("tickets", version, plan(1))
    shard_table.beat(beat(V), now_s=T0)
    assert not remove(shard_table, now_s=T0 + IDLE_S - 1)
    assert remove(shard_table, OTHER, now_s=T0)
    assert remove(shard_table, now_s=T0 + IDLE_S + 1)


def test_the_tables_own_clock_decides_where_no_time_is_given(shard_table: ShardTable) -> None:
    """As in the other calls."""
    shard_table.register("tickets", V, plan(1))
    shard_table.beat(beat(V))
    assert not shard_table.remove(V, idle_s=3_600)
    assert shard_table.remove(V, idle_s=-3_600)


@pytest.mark.parametrize("old", [OUTCOME, replace(OUTCOME, dead_key=None, dead_digest=None, dead_letters=0)])
def test_a_rewritten_outcome(shard_table: ShardTable, old) -> None:
    """Objects, digests and counts change together; again is the same; the epoch and the owner stay."""
    shard_table.register("tickets", V, plan(1))
    shard_table.complete(take(shard_table), old, now_s=T0)
    before = shard_table.shards(V)[0]
    new = replace(old, results=old.results - 1, dead_letters=old.dead_letters + 1, result_key="r2", dead_key="d2")
    assert shard_table.replace_outcome(V, 0, old, new)
    assert shard_table.replace_outcome(V, 0, old, new)
    row = shard_table.shards(V)[0]
    assert row == replace(before, outcome=new, results=new.results, dead_letters=new.dead_letters)


def test_only_what_stands_is_replaced(shard_table: ShardTable) -> None:
    """A shard that is not done, is done with something else, or is not there: nothing changes."""
    shard_table.register("tickets", V, plan(2))
    new = replace(OUTCOME, result_key="r2")
    assert not shard_table.replace_outcome(V, 0, OUTCOME, new)
    shard_table.complete(take(shard_table), OUTCOME, now_s=T0)
    assert not shard_table.replace_outcome(V, 0, replace(OUTCOME, result_digest="sha256:cc"), new)
    assert not shard_table.replace_outcome(V, 7, OUTCOME, new)
    assert not shard_table.replace_outcome("v-none", 0, OUTCOME, new)
    assert shard_table.shards(V)[0].outcome == OUTCOME
