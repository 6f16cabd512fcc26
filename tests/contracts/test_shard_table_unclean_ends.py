"""Leases that end without a release: how many is what a successor goes by."""

from __future__ import annotations

import pytest

from batch_assets.domain.errors import LeaseLost
from batch_assets.domain.ports import ShardTable
from tests.contracts.shard_table_values import T0, TTL_S, V, plan, take


def test_unclean_ends_are_counted_until_the_suspects_are_answered(shard_table: ShardTable) -> None:
    """Each lease that ended by expiry counts; a release forgets none while suspects are left; an absolution does."""
    shard_table.register("tickets", V, plan(1))
    now_s = T0
    for ends in range(3):
        lease = take(shard_table, f"w{ends}", now_s=now_s)
        assert lease.unclean_ends == ends
        now_s += TTL_S
    shard_table.release(lease, results=5, dead_letters=0, suspicious=True)
    lease = take(shard_table, "w3", now_s=now_s)
    assert lease.unclean_ends == 2
    shard_table.absolve(lease)
    successor = take(shard_table, "w4", now_s=now_s + TTL_S)
    assert successor.unclean_ends == 1
    shard_table.release(successor, results=5, dead_letters=0)
    assert take(shard_table, "w5", now_s=now_s + TTL_S).unclean_ends == 0


def test_a_dead_workers_leases_end_at_once_and_uncleanly(shard_table: ShardTable) -> None:
    """Whoever saw a worker die need not wait for its leases to expire; another worker's leases stay as they are."""
    shard_table.register("tickets", V, plan(4))
    dead = [take(shard_table, "dead"), take(shard_table, "dead")]
    alive = take(shard_table, "alive")
    assert shard_table.expire(V, "dead", now_s=T0) == 2
    assert shard_table.expire("v-none", "dead", now_s=T0) == 0
    again = [take(shard_table, "w2", now_s=T0) for _ in range(3)]
    assert [(lease.shard, lease.unclean_ends) for lease in again] == [(0, 1), (1, 1), (3, 0)]
    shard_table.renew(alive, results=1, dead_letters=0, ttl_s=TTL_S, now_s=T0)
    with pytest.raises(LeaseLost):
        shard_table.renew(dead[0], results=1, dead_letters=0, ttl_s=TTL_S, now_s=T0)


def test_a_worker_that_was_thought_dead_goes_on_if_nobody_came(shard_table: ShardTable) -> None:
    """An expired lease that nobody claimed is still live."""
    shard_table.register("tickets", V, plan(1))
    lease = take(shard_table, "w1")
    shard_table.expire(V, "w1", now_s=T0)
    shard_table.renew(lease, results=1, dead_letters=0, ttl_s=TTL_S, now_s=T0)
    assert shard_table.claim(V, "w2", ttl_s=TTL_S, now_s=T0) is None
