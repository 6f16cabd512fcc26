"""Simulated workers of the load benchmark: what a fleet asks of the shard table, without engines.

Each worker is a thread with a `SqlShardTable` of its own, as a worker process has: it claims a shard, renews the lease
with the counts after each part and at each heartbeat, tells its beat, completes, and claims the next. Paced workers
keep to a schedule (a late answer does not lower the offered rate); the others go as fast as they can.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import Any, Protocol

from load_bare import BarePsycopg2, BareSqlalchemy
from load_measures import Load, Measured
from load_parts import PartSource
from load_server import server_cpu_s

from batch_assets.domain.canonical import digest_of
from batch_assets.domain.lease import Lease, Outcome
from batch_assets.domain.part import result_key
from batch_assets.domain.ports import Beat, ShardTable
from resources.shard_table.connect import open_shard_table

JOB = "load"
OPENERS = 8  # connections that a process opens at once
READY_WITHIN_S = 600.0
BESIDE_S = 0.5
STARTS_PER_S = 50  # how fast a fleet comes up


class Member(Protocol):
    """Something that asks the database for a while. Making one connects."""

    measured: Measured

    def run(self, start_s: float, end_s: float) -> None:
        """Ask from `start_s` until `end_s` of `time.perf_counter`."""
        ...


class SimulatedWorker:
    """One worker. Opening connects; `run` works from `start_s` to `end_s` of `time.perf_counter`."""

    def __init__(self, load: Load, number: int, parts: PartSource | None) -> None:
        self._load = load
        self._name = f"pod-{number:05d}-{number * 7919 % 100_000:05d}"
        self._chance = random.Random(number)
        self._parts = parts
        self._rows = 0
        self.measured = Measured()
        self._table: ShardTable = self.measured.timed("open", lambda: open_shard_table(load.url))

    def run(self, start_s: float, end_s: float) -> None:
        """Claim and finish shards. The first is taken as partly done, so that a fleet's shards end at all times."""
        part_s = self._load.part_rows / self._load.rows_per_s if self._load.rows_per_s else 0.0
        due_s = start_s + self._chance.random() * self._load.workers / STARTS_PER_S
        beat_s = due_s + self._load.heartbeat_s * self._chance.random()
        to_do = self._chance.randint(1, self._load.shard_rows)
        kind = "first claim"
        while self._wait(due_s) < end_s:
            lease = self.measured.timed(kind, self._claim)
            if lease is None:
                return
            kind, done = "claim", 0
            while done < to_do:
                rows = min(self._load.part_rows, to_do - done)
                due_s += rows / self._load.rows_per_s if part_s else 0.0
                while part_s and beat_s < min(due_s, end_s):
                    self._wait(beat_s)
                    self._heartbeat(lease, done)
                    beat_s += self._load.heartbeat_s
                if self._wait(due_s) >= end_s:
                    return
                done += rows
                self._commit(lease, rows, done)
            self.measured.timed("complete", partial(self._complete, lease, done))
            to_do = self._load.shard_rows

    def _wait(self, due_s: float) -> float:
        """Wait until a moment; return it, or now if there is no schedule."""
        now_s = time.perf_counter()
        if not self._load.rows_per_s:
            return now_s
        if now_s < due_s:
            time.sleep(due_s - now_s)
        else:
            self.measured.lag_s = max(self.measured.lag_s, now_s - due_s)
        return due_s

    def _claim(self) -> Lease | None:
        return self._table.claim(self._load.version, self._name, ttl_s=self._load.lease_ttl_s)

    def _commit(self, lease: Lease, rows: int, done: int) -> None:
        if self._parts is not None:
            parts = self._parts
            self.measured.timed("part object", lambda: parts.commit(lease, rows))
        self.measured.timed("renew", lambda: self._renew(lease, done))
        self.measured.rows += rows
        self._rows += rows

    def _renew(self, lease: Lease, done: int) -> None:
        self._table.renew(lease, results=done, dead_letters=0, ttl_s=self._load.lease_ttl_s)

    def _heartbeat(self, lease: Lease, done: int) -> None:
        self.measured.timed("renew", lambda: self._renew(lease, done))
        rate = self._load.rows_per_s
        beat = Beat(
            worker=self._name,
            version=self._load.version,
            state="working",
            records=self._rows,
            records_per_s=rate,
            tokens_per_s=300 * rate,
        )
        self.measured.timed("beat", lambda: self._table.beat(beat))

    def _complete(self, lease: Lease, rows: int) -> None:
        digest = digest_of([lease.version, lease.shard, lease.epoch])
        outcome = Outcome(
            results=rows,
            dead_letters=0,
            result_key=result_key(JOB, lease.version, lease.shard, digest),
            result_digest=digest,
            prompt_tokens=260 * rows,
            output_tokens=45 * rows,
        )
        self._table.complete(lease, outcome)


def _process(load: Load, numbers: range, barrier: Barrier, answers: Any) -> None:
    parts = PartSource(load.parts_folder, JOB, load.version) if load.parts_folder else None
    make: Mapping[str, Callable[[int], Member]] = {
        "shards": lambda number: SimulatedWorker(load, number, parts),
        "psycopg2": lambda number: BarePsycopg2(load.url, number),
        "sqlalchemy": lambda number: BareSqlalchemy(load.url, number),
    }
    threading.stack_size(512 * 1024)
    with ThreadPoolExecutor(OPENERS) as openers:
        workers = list(openers.map(make[load.kind], numbers))
    opened_cpu_s = time.process_time()
    barrier.wait(READY_WITHIN_S)
    start_s = time.perf_counter()
    with ThreadPoolExecutor(len(workers)) as pool:
        for future in [pool.submit(worker.run, start_s, start_s + load.seconds) for worker in workers]:
            future.result()
    measured = Measured()
    for worker in workers:
        measured.add(worker.measured)
    answers.put((measured, time.perf_counter() - start_s, time.process_time() - opened_cpu_s))


def run_fleet(
    load: Load, *, each_minute: Callable[[float], object], beside: Callable[[], object] | None = None
) -> tuple[Measured, Mapping[str, float]]:
    """Run a load; meanwhile this process calls `each_minute` with the seconds since the start, at start and end, too.

    It calls `beside` every `BESIDE_S` seconds.

    Returns:
        The measurements, and `wall_s`, `client_cpu_s` (the simulated workers') and `server_cpu_s`.
    """
    context = get_context("spawn")
    barrier, answers = context.Barrier(load.processes + 1), context.Queue()
    children = [
        context.Process(
            target=_process, args=(load, range(first, load.workers, load.processes), barrier, answers), daemon=True
        )
        for first in range(load.processes)
    ]
    for child in children:
        child.start()
    barrier.wait(READY_WITHIN_S)
    cpu_before_s = server_cpu_s(load.url)
    started = time.perf_counter()
    minutes = 0
    while (elapsed_s := time.perf_counter() - started) < load.seconds:
        if elapsed_s >= 60 * minutes:
            each_minute(elapsed_s)
            minutes += 1
        if beside is not None:
            beside()
        time.sleep(BESIDE_S)
    measured, walls, cpu_s = Measured(), [], 0.0
    for _ in children:
        of_child, wall_s, child_cpu_s = answers.get(timeout=READY_WITHIN_S)
        measured.add(of_child)
        walls.append(wall_s)
        cpu_s += child_cpu_s
    each_minute(time.perf_counter() - started)
    server_s = server_cpu_s(load.url) - cpu_before_s
    for child in children:
        child.join()
    return measured, {"wall_s": max(walls), "client_cpu_s": cpu_s, "server_cpu_s": server_s}
