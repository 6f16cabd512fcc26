"""What a fleet's leases cost on PostgreSQL: latencies, accepted rows/s, dead rows; paced, ten times that, and flat out.

The server is started here, with synced commits (or give `--url` of an empty database). The simulated workers use the
production shard table, each with a connection of its own; see `load_fleet.py`. Paced: the fleet offers `--rows-per-s`
in all, in parts of 400 rows, with a heartbeat each 30 s; beside it, a process updates one row of a plain table each
half second, which says how quick anything is on that machine then. Flat out: the same calls without a pause, in turns
with bare single-row updates of a plain table on as many connections. One JSON line a phase; dead rows are sampled each
minute.

    python benchmarks/load.py --workers 200 2000 --minutes 10
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from load_bare import CREATE, FILL, BarePsycopg2
from load_fleet import JOB, run_fleet
from load_measures import Load, Measured
from load_server import database, query, server_memory, table_statistics

from batch_assets.domain.plan import Shard, Slice
from resources.shard_table.connect import open_shard_table

SHARD_ROWS = 5_000
BARE = ("psycopg2", "sqlalchemy")


def register(url: str, version: str, shards: int) -> None:
    """Register a version of so many full shards."""
    table = open_shard_table(url)
    table.register(
        JOB,
        version,
        [
            Shard(
                index=index,
                slices=(Slice(object_index=0, start=index * SHARD_ROWS, stop=(index + 1) * SHARD_ROWS),),
                records=SHARD_ROWS,
                refused=0,
                estimated_tokens=300 * SHARD_ROWS,
            )
            for index in range(shards)
        ],
    )
    table.close()


def say(phase: str, **values: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"phase": phase, **values}), flush=True)


def cpu(measured: Measured, times: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU of simulated workers and server: cores in use, and milliseconds a transaction."""
    return {
        f"{side}_{name}": round(times[f"{side}_cpu_s"] * factor, 2)
        for side in ("client", "server")
        for name, factor in (("cores", 1 / times["wall_s"]), ("cpu_ms", 1_000 / max(1, measured.transactions)))
    }


def paced(url: str, arguments: argparse.Namespace, workers: int, folder: Path) -> None:
    """Run a fleet that offers the same rows/s a worker at every size, and print what it got."""
    each = arguments.rows_per_s / arguments.workers[0]
    seconds = arguments.minutes * 60
    version = f"v-paced-{workers}"
    register(url, version, max(arguments.shards, int(workers * (2 + each * seconds / SHARD_ROWS))))
    load = Load(
        url=url,
        version=version,
        workers=workers,
        processes=arguments.processes,
        rows_per_s=each,
        seconds=seconds,
        parts_folder=folder / version if arguments.parts else None,
    )

    def sample(elapsed_s: float) -> None:
        for table in ("batch_shard", "batch_worker"):
            say("sample", workers=workers, table=table, second=round(elapsed_s), **table_statistics(url, table))
        if workers == arguments.workers[-1] and 0 < elapsed_s < seconds:
            say("sessions", workers=workers, second=round(elapsed_s), **server_memory(url))

    bare = BarePsycopg2(url, 0)
    measured, times = run_fleet(load, each_minute=sample, beside=bare.once)
    say(
        "paced",
        workers=workers,
        offered_rows_per_s=round(each * workers),
        accepted_rows_per_s=round(measured.rows / times["wall_s"]),
        parts=arguments.parts,
        lag_s=round(measured.lag_s, 3),
        transactions_per_s=round(measured.transactions / times["wall_s"], 1),
        **cpu(measured, times),
        load_average=os.getloadavg()[1],
        **measured.milliseconds(),
        **{"bare update": bare.measured.milliseconds()["update"]},
    )


def flat_out(url: str, arguments: argparse.Namespace) -> None:
    """Measure the ceiling and the bare baselines in turns, and print both with their ratios."""
    rates: dict[str, list[float]] = {kind: [] for kind in ("shards", *BARE)}
    for number in range(arguments.rounds):
        for kind in rates if number % 2 == 0 else reversed(rates):
            version = f"v-flat-{number}"
            if kind == "shards":
                register(url, version, arguments.shards)
            load = Load(
                url=url,
                version=version,
                workers=arguments.clients,
                processes=arguments.processes,
                seconds=arguments.flat_out_s,
                kind=kind,
            )
            measured, times = run_fleet(load, each_minute=lambda _elapsed_s: None)
            rates[kind].append(measured.transactions / times["wall_s"])
            say(
                "flat out",
                kind=kind,
                clients=arguments.clients,
                rows_per_s=round(measured.rows / times["wall_s"]),
                transactions_per_s=round(rates[kind][-1]),
                **cpu(measured, times),
                **measured.milliseconds(),
            )
    ours = statistics.median(rates["shards"])
    say("ratio", **{f"of_{kind}": round(ours / statistics.median(rates[kind]), 2) for kind in BARE})


def main() -> None:
    """Print one JSON line a phase and sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty database (default: a server of our own)")
    parser.add_argument("--workers", type=int, nargs="*", default=[200, 2000], help="sizes of the paced fleet")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rows-per-s", type=float, default=10_000, help="offered by the first size; others in ratio")
    parser.add_argument("--shards", type=int, default=10_000, help="of a version, at least")
    parser.add_argument("--processes", type=int, default=2, help="of simulated workers")
    parser.add_argument("--parts", action="store_true", help="make and put every part, too")
    parser.add_argument("--flat-out-s", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="of flat out; 0: none")
    parser.add_argument("--clients", type=int, default=16, help="connections of flat out")
    arguments = parser.parse_args()
    connections = 20 + int(1.25 * max([*arguments.workers, arguments.clients]))
    with tempfile.TemporaryDirectory() as folder, database(arguments.url, connections=connections) as url:
        query(url, CREATE)
        query(url, FILL, (arguments.clients,))
        for workers in arguments.workers:
            paced(url, arguments, workers, Path(folder))
        if arguments.rounds:
            flat_out(url, arguments)


if __name__ == "__main__":
    main()
