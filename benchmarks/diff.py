"""How fast two snapshots are compared, and whether memory stays flat: records/s and peak memory at two sizes.

    python benchmarks/diff.py [--rounds N] [records ...]        (default: 3 rounds of 500000 and 5000000)

Of the new snapshot's records 5 % are edited, 1 % are new, and 1 % of the old ones are gone; it has another order.
Beside it stands DuckDB alone: a full outer join by id over the same Parquet files with its own hash of the text, the
same memory limit and the same threads. That hash is faster than ours and no content hash, it does not look at damaged
values, at ids that repeat or at whether the files still are what the snapshot recorded. `text only` is the same join
with the text's MD5 instead. Each measurement runs in a process of its own; they take turns.
Both sides are counted: records/s are rows of the old and the new snapshot in a second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from batch_assets.domain.changes import Changes
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns, InputSpec
from resources.result_store.store import open_result_store
from resources.snapshots.diff import diff_snapshots
from resources.snapshots.take import take_snapshot

MEMORY_LIMIT = "512MB"
THREADS = 2
FILE_RECORDS = 250_000
COLUMNS = InputColumns(carry=("lang",))
WORDS = ["please", "help", "my", "card", "was", "charged", "twice", "the", "refund", "did", "not", "arrive", "thanks"]


def generate(folder: Path, records: int) -> None:
    """Write two snapshots: an id, a text of about 120 bytes, a language."""
    for side in ("old", "new"):
        (folder / side).mkdir(parents=True)
        first = 0 if side == "old" else records // 100  # gone at the front, new at the end
        starts = range(first, first + records, FILE_RECORDS)
        for number, start in enumerate(starts if side == "old" else reversed(starts)):
            numbers = np.arange(start, min(first + records, start + FILE_RECORDS))
            words = pl.Series(WORDS)
            picked = [words.gather((numbers * step + step) % len(WORDS)) for step in range(1, 24)]
            edited = (numbers % 20 == 7) & (side == "new")
            frame = pl.DataFrame({f"w{place}": series for place, series in enumerate(picked)}).select(
                record_id=pl.lit("ticket-") + pl.Series(numbers).cast(pl.String).str.zfill(10),
                # The number makes each text one of its own: a dictionary of a few would be hashed in no time.
                text=pl.concat_str(
                    pl.Series(numbers).cast(pl.String),
                    pl.all(),
                    pl.Series(np.where(edited, "edited", "as before")),
                    separator=" ",
                ),
                lang=pl.lit("en"),
            )
            frame.write_parquet(folder / side / f"part-{number:05d}.parquet")


def snapshot(folder: Path) -> Snapshot:
    """Take a snapshot of a folder of Parquet; nothing is converted, so the store stays empty."""
    store = open_result_store("memory://")
    return take_snapshot(InputSpec(uri=str(folder), columns=COLUMNS), store).snapshot


def ours(folder: Path) -> tuple[int, int, int, int]:
    """Compare two snapshots that were taken before; their checksums are verified."""
    old, new = snapshot(folder / "old"), snapshot(folder / "new")
    with diff_snapshots(
        old, new, COLUMNS, ("text",), memory_limit=MEMORY_LIMIT, threads=THREADS, scratch_dir=folder
    ) as diff:
        found: Changes = diff.changes
        return found.changed, found.new, found.deleted, found.unchanged


def bare(folder: Path, content: str) -> tuple[int, int, int, int]:
    """Join the files by id with DuckDB alone."""
    database = duckdb.connect(
        config={"memory_limit": MEMORY_LIMIT, "threads": THREADS, "temp_directory": str(folder / "spilled")}
    )
    sides = ", ".join(
        f"{name} AS (SELECT record_id, {content} AS content FROM read_parquet('{folder}/{side}/*.parquet'))"
        for name, side in (("before", "old"), ("after", "new"))
    )
    (counts,) = database.execute(
        f"""WITH {sides}
        SELECT count(*) FILTER (before.content <> after.content), count(*) FILTER (before.record_id IS NULL),
               count(*) FILTER (after.record_id IS NULL), count(*) FILTER (before.content = after.content)
        FROM before FULL JOIN after ON before.record_id = after.record_id"""
    ).fetchall()
    changed, new, deleted, unchanged = counts
    return changed, new, deleted, unchanged


MEASURES = {
    "bare join": lambda folder: bare(folder, "hash(text)"),
    "text only": lambda folder: bare(folder, "md5_number(text)"),
    "diff": ours,
}


def measure(name: str, folder: Path) -> tuple[list[int], float, float, float]:
    """Run one measurement in its own process; return the counts, seconds, CPU seconds, and peak memory in MB."""
    command = [sys.executable, __file__, "--measure", name, str(folder)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return [int(text) for text in said[:4]], float(said[4]), float(said[5]), float(said[6])


def peak_memory_mb() -> float:
    """Return this program's own peak: what `getrusage` says begins with that of the process that started it."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def expected(records: int) -> list[int]:
    """Return changed, new, deleted, unchanged of two snapshots of `records`."""
    gone = records // 100
    changed = sum(1 for number in range(gone, records) if number % 20 == 7)
    return [changed, gone, gone, records - gone - changed]


def main() -> None:
    """Measure, or be the process that is measured."""
    if "--measure" in sys.argv:
        name, measured = sys.argv[-2:]
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        print(*MEASURES[name](Path(measured)))
        seconds, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
        print(seconds, cpu_s, peak_memory_mb())
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("records", nargs="*", type=int, default=[500_000, 5_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{THREADS} threads of {os.cpu_count()} cores, DuckDB memory limit {MEMORY_LIMIT}, median of {options.rounds}"
    )
    print(f"{'records':>10} {'what':>10} {'seconds':>8} {'records/s':>11} {'CPU s':>6} {'peak MB':>8}")
    for records in options.records:
        with tempfile.TemporaryDirectory(prefix="batch-assets-benchmark-") as scratch:
            folder = Path(scratch)
            generate(folder, records)
            runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in MEASURES}
            for _ in range(options.rounds):
                for name, found in runs.items():
                    counts, *figures = measure(name, folder)
                    if counts != expected(records):
                        raise SystemExit(f"{name}: counted {counts}, expected {expected(records)}")
                    found.append((figures[0], figures[1], figures[2]))
            for name, found in runs.items():
                seconds, cpu_s, peak_mb = (statistics.median(column) for column in zip(*found, strict=True))
                print(
                    f"{records:>10} {name:>10} {seconds:>8.1f} {2 * records / seconds:>11,.0f} {cpu_s:>6.1f} "
                    f"{peak_mb:>8.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
