"""Races for shards: threads on every adapter, processes on the databases. Every barrier lets all of them go at once."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.synchronize import Barrier as ProcessBarrier

from batch_assets.domain.errors import LeaseLost
from batch_assets.domain.lease import Lease
from batch_assets.domain.ports import ShardTable
from resources.shard_table.connect import open_shard_table
from tests.contracts.shard_table_values import T0, TTL_S, V, plan, take


def test_threads_that_race_for_the_last_shard(shard_table: ShardTable) -> None:
    """Twenty times, four workers at once for one shard: exactly one lease each time."""
    workers = 4
    start = threading.Barrier(workers)

    def claim(version: str, worker: str) -> Lease | None:
        start.wait()
        return shard_table.claim(version, worker, ttl_s=TTL_S, now_s=T0)

    with ThreadPoolExecutor(workers) as pool:
        for number in range(20):
            version = f"v-{number:012d}"
            shard_table.register("tickets", version, plan(1))
            leases = list(pool.map(lambda worker, v=version: claim(v, f"w{worker}"), range(workers)))
            assert [lease.epoch for lease in leases if lease] == [1]


def test_threads_that_race_for_an_expired_lease(shard_table: ShardTable) -> None:
    """The sleeper renews while others claim: either it keeps the shard, or one other has it, under the next epoch."""
    shard_table.register("tickets", V, plan(1))
    start = threading.Barrier(3)
    held = take(shard_table)

    def renew(now_s: float) -> Lease | None:
        start.wait()
        try:
            return shard_table.renew(held, results=0, dead_letters=0, ttl_s=TTL_S, now_s=now_s)
        except LeaseLost:
            return None

    def claim(worker: str, now_s: float) -> Lease | None:
        start.wait()
        return shard_table.claim(V, worker, ttl_s=TTL_S, now_s=now_s)

    with ThreadPoolExecutor(3) as pool:
        for _ in range(20):
            now_s = held.expires_at_s
            tries = [pool.submit(renew, now_s), pool.submit(claim, "w2", now_s), pool.submit(claim, "w3", now_s)]
            (winner,) = [lease for lease in (future.result() for future in tries) if lease]
            assert winner.epoch == shard_table.shards(V)[0].epoch
            held = winner


def test_threads_that_register_the_same_version_at_once(shard_table: ShardTable) -> None:
    """Both succeed, and the shards are there once."""
    start = threading.Barrier(4)

    def register(_number: int) -> None:
        start.wait()
        shard_table.register("tickets", V, plan(500))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(register, range(4)))
    assert len(shard_table.shards(V)) == 500


# --- processes: the first opens a fresh database at the same moment as the second

START: list[ProcessBarrier] = []
ROUNDS = 15


def _enter(barrier: ProcessBarrier) -> None:
    START.append(barrier)


def race(url: str, worker: str) -> list[tuple[str, int, int]]:
    """Open, register and claim until nothing is left, all at once with the other process; return what was claimed."""
    claimed = []
    START[0].wait()
    table = open_shard_table(url)
    for number in range(ROUNDS):
        version, shards = f"v-{number:012d}", 1 if number else 100
        START[0].wait()
        table.register("tickets", version, plan(shards))
        while lease := table.claim(version, worker, ttl_s=TTL_S, now_s=T0):
            claimed.append((version, lease.shard, lease.epoch))
    table.close()
    return claimed


def test_processes_that_race_from_a_fresh_database_to_the_last_shard(sql_url: str) -> None:
    """Two processes migrate, register and claim at once: no error, and every shard is claimed once, at epoch 1."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    with ProcessPoolExecutor(2, mp_context=context, initializer=_enter, initargs=(barrier,)) as pool:
        futures = [pool.submit(race, sql_url, f"w{number}") for number in range(2)]
        claimed = [item for future in futures for item in future.result()]
    expected = [("v-000000000000", shard, 1) for shard in range(100)]
    expected += [(f"v-{number:012d}", 0, 1) for number in range(1, ROUNDS)]
    assert sorted(claimed) == expected
