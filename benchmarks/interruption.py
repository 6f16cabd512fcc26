"""What an interruption costs, with real worker processes and an engine that answers 32 records a step.

- `kill -9` of a random worker of a local fleet at a random moment, driven as a run does: records asked again, and the
  seconds until its shard is worked on again, as the fleet sees the death and expires its leases;
- the same among workers that nobody watches, as pods are: its shard comes back when its lease expires;
- SIGTERM with records in flight: seconds to the exit, of a budget of 10.

One JSON line an interruption, one a summary, and a table at the end. Random means seeded (`--seed`).

    python benchmarks/interruption.py
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from interruption_costs import Cost, Row, cost_of, middle_and_most, table
from interruption_world import SEQS, WINDOW, Pods, World, own_workers

from resources.flow import drive
from resources.results.audit import audit_version

WORKERS = 4
STEP_S = 0.4  # 80 records/s a worker
LONG_STEP_S = 2.5  # answers that take up to 5 s, 12.8 records/s
LEASE_S, HEARTBEAT_S = 6.0, 2.0


def say(**values: Any) -> Row:
    """Print one JSON line and return its values."""
    print(json.dumps(values), flush=True)
    return values


def summary(case: str, costs: Sequence[Cost], **more: Any) -> Row:
    """Print the figures of some deaths."""
    return say(
        case=case,
        interruptions=len(costs),
        asked_again=middle_and_most([cost.asked_again for cost in costs]),
        in_flight=middle_and_most([cost.in_flight for cost in costs]),
        back_s=middle_and_most([cost.back_s for cost in costs if cost.back_s is not None]),
        careful_s=middle_and_most([cost.careful_s for cost in costs]),
        load_average=os.getloadavg()[1],
        **more,
    )


def costs_of(case: str, world: World, deaths: Mapping[int, float], step_s: float) -> list[Cost]:
    """Print and return what each death (process id to moment) cost."""
    settings, diaries = world.platform.settings, world.read()
    suspects = WINDOW + settings.part_records_max
    costs = [cost_of(pid, at_s, diaries, suspects=suspects, rate=SEQS / step_s) for pid, at_s in sorted(deaths.items())]
    for cost in costs:
        say(case=case, **asdict(cost))
    return costs


def seen(folder: Path, kills: int, chance: random.Random, *, gap_s: float) -> Row:
    """Kill workers of a local fleet that is driven to its end; afterwards everything must be there once."""
    records = int(WORKERS * SEQS / STEP_S * gap_s * (kills + 4))
    world = World.make(folder, records=records, shard_size=1_000, latency_s=STEP_S, workers=WORKERS)
    deaths: dict[int, float] = {}
    ended = threading.Event()

    def kill_some() -> None:
        while len(deaths) < kills and not ended.wait(chance.uniform(0.0, 2 * gap_s)):
            if workers := world.at_work(own_workers()):
                pid = chance.choice(workers)
                os.kill(pid, signal.SIGKILL)
                deaths[pid] = time.monotonic()

    killer = threading.Thread(target=kill_some)
    started = time.monotonic()
    killer.start()
    try:
        drive(world.platform, world.version, None, on_done=lambda _: None, on_tick=lambda _: None)
    finally:
        ended.set()
        killer.join()
    wall_s = time.monotonic() - started
    platform, registry = world.platform, world.platform.registry
    job = registry.find(world.version)
    audit = audit_version(
        platform.store,
        job,
        registry.plan(job, world.version),
        registry.refused_key(job, world.version),
        platform.table.shards(world.version),
    )
    bound = WINDOW + platform.settings.part_records_max + SEQS  # the step that fills a part may overfill it
    return summary(
        "kill -9, the fleet sees it",
        costs_of("kill -9, the fleet sees it", world, deaths, STEP_S),
        bound_records=bound,
        records=records,
        wall_s=round(wall_s, 1),
        audit_clean=audit.clean and audit.results == records,
    )


def unseen(folder: Path, kills: int, chance: random.Random) -> Row:
    """Kill workers that nobody watches; each is replaced at once, and its lease has to expire."""
    world = World.make(
        folder,
        records=30_000,
        shard_size=240,
        latency_s=STEP_S,
        lease_ttl_s=LEASE_S,
        heartbeat_interval_s=HEARTBEAT_S,
        part_interval_s=1.0,
    )
    pods = Pods(world, WORKERS)
    deaths: dict[int, float] = {}
    try:
        while len(deaths) < kills:
            time.sleep(chance.uniform(1.0, 4.0))
            if workers := pods.at_work:
                pid = chance.choice(workers)
                deaths[pid], _, _ = pods.end(pid, signal.SIGKILL)
                pods.add()
        time.sleep(2 * LEASE_S)
    finally:
        pods.stop()
    case = "kill -9, nobody sees it"
    return summary(case, costs_of(case, world, deaths, STEP_S), lease_ttl_s=LEASE_S)


def terminated(folder: Path, times: int, chance: random.Random, *, step_s: float) -> Row:
    """Send SIGTERM to workers with records in flight."""
    case = f"SIGTERM, {step_s:g} s a step"
    world = World.make(folder, records=60_000, shard_size=1_000, latency_s=step_s)
    pods = Pods(world, 2)
    ends: list[tuple[int, float, float]] = []
    try:
        while len(ends) < times:
            time.sleep(chance.uniform(0.5, 2.0) + step_s / 2)
            in_flight = {pid: world.read()[pid].in_flight(time.monotonic()) for pid in pods.at_work}
            if busy := [pid for pid, count in in_flight.items() if count]:
                pid = chance.choice(busy)
                at_s, seconds, code = pods.end(pid, signal.SIGTERM)
                if code != 75:
                    raise SystemExit(f"a worker ended with {code} instead of 75")
                ends.append((pid, at_s, seconds))
                pods.add()
        time.sleep(2.0)
    finally:
        pods.stop()
    costs = costs_of(case, world, {pid: at_s for pid, at_s, _ in ends}, step_s)
    return summary(case, costs, exit_s=middle_and_most([seconds for _, _, seconds in ends]), budget_s=10.0)


def main() -> None:
    """Interrupt, print JSON lines, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--gap-s", type=float, default=10, help="seconds between these kills, on average")
    parser.add_argument("--unseen", type=int, default=12, help="kills that nobody sees")
    parser.add_argument("--terms", type=int, default=12, help="SIGTERMs of each step length")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    cases: tuple[tuple[int, Callable[[Path, int, random.Random], Row]], ...] = (
        (arguments.kills, partial(seen, gap_s=arguments.gap_s)),
        (arguments.unseen, unseen),
        (arguments.terms, partial(terminated, step_s=STEP_S)),
        (arguments.terms, partial(terminated, step_s=LONG_STEP_S)),
    )
    rows = []
    for number, (times, case) in enumerate(cases):
        if times:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(case(Path(folder), times, random.Random(arguments.seed + number)))
    table(rows)


if __name__ == "__main__":
    main()
