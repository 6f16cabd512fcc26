"""How fast planning is, and whether its memory stays flat: records/s and peak memory at two sizes, on one core.

    python benchmarks/planning.py [records ...]        (default: 1000000 5000000)

Beside it stands a bare baseline of the same work: DuckDB alone over the same Parquet files, grouping by id and looking
at the same columns, with the same memory limit. Each measurement runs in a process of its own.
On a busy machine look at the records per second of CPU time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from batch_assets.domain.spec import DecodingSpec, InputColumns, InputSpec, JobSpec, ModelSpec, PromptSpec
from resources.planning.planner import plan_version
from resources.planning.tokens import ByteCounter

MEMORY_LIMIT = "256MB"
FILE_RECORDS = 250_000
WORDS = ["please", "help", "my", "card", "was", "charged", "twice", "the", "refund", "did", "not", "arrive", "thanks"]


def generate(folder: Path, records: int) -> None:
    """Write synthetic records: an id, a text of about 60 bytes, a language; one id in 10,000 is given twice."""
    for first in range(0, records, FILE_RECORDS):
        numbers = np.arange(first, min(records, first + FILE_RECORDS))
        ids = np.where(numbers % 10_000 == 9_999, numbers - 1, numbers)
        words = pl.Series(WORDS)
        picked = [words.gather((numbers * step + step) % len(WORDS)) for step in (1, 3, 7, 11, 13, 17, 19, 23, 29, 31)]
        frame = pl.DataFrame({f"w{place}": series for place, series in enumerate(picked)}).select(
            record_id=pl.lit("ticket-") + pl.Series(ids).cast(pl.String).str.zfill(10),
            text=pl.concat_str(pl.all(), separator=" "),
            lang=pl.lit("en"),
        )
        frame.write_parquet(folder / f"part-{first // FILE_RECORDS:05d}.parquet")


def plan(folder: Path) -> int:
    """Plan a version over the folder; return its records. Checksums are a snapshot's work and left out."""
    source = InputSpec(uri=str(folder), columns=InputColumns(carry=("lang",)))
    spec = JobSpec(
        name="benchmark",
        input=source,
        model=ModelSpec(name="none", path="none", digest="sha256:" + "0" * 64, engine="fake"),
        prompt=PromptSpec(system="Sort it."),
        decoding=DecodingSpec(max_tokens=16),
        output_schema='{"type":"object","properties":{"category":{"type":"string"}}}',
    )
    objects = tuple(
        SnapshotObject(
            key=path.name,
            size_bytes=path.stat().st_size,
            checksum="sha256:unread",
            rows=pl.scan_parquet(path).select(pl.len()).collect().item(),
            data_uri=str(path),
            converted=False,
        )
        for path in sorted(folder.glob("*.parquet"))
    )
    snapshot = Snapshot(uri=str(folder), objects=objects)
    planned = plan_version(
        spec, snapshot, tokens=ByteCounter(), memory_limit=MEMORY_LIMIT, threads=1, scratch_dir=folder.parent
    )
    return planned.plan.records


def baseline(folder: Path) -> int:
    """Look at the same columns and group by id with DuckDB alone; return the records."""
    database = duckdb.connect(
        config={"memory_limit": MEMORY_LIMIT, "threads": 1, "temp_directory": str(folder.parent / "baseline")}
    )
    rows = database.execute(
        "SELECT sum(n), sum(size) FROM (SELECT record_id, count(*) AS n, sum(strlen(text)) AS size, "
        "min(hash(text, lang)) <> max(hash(text, lang)) AS differs FROM read_parquet(?) GROUP BY record_id)",
        [str(folder / "*.parquet")],
    ).fetchall()
    return int(rows[0][0])


def measure(name: str, folder: Path) -> tuple[float, float, float]:
    """Run one measurement in its own process; return seconds, seconds of its core, and peak memory in MB."""
    command = [sys.executable, __file__, "--measure", name, str(folder)]
    seconds, cpu_s, peak_mb = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(cpu_s), float(peak_mb)


def main() -> None:
    """Measure, or be the process that is measured."""
    if "--measure" in sys.argv:
        name, measured = sys.argv[-2:]
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        {"plan": plan, "baseline": baseline}[name](Path(measured))
        seconds, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
        print(seconds, cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
        return
    print(f"one core, DuckDB memory limit {MEMORY_LIMIT}")
    print(f"{'records':>10} {'what':>9} {'seconds':>8} {'records/s':>10} {'CPU s':>6} {'per CPU s':>13} {'peak MB':>8}")
    for records in [int(text) for text in sys.argv[1:]] or [1_000_000, 5_000_000]:
        with tempfile.TemporaryDirectory(prefix="batch-assets-benchmark-") as scratch:
            folder = Path(scratch, "source")
            folder.mkdir()
            generate(folder, records)
            for name in ("baseline", "plan"):
                seconds, cpu_s, peak_mb = measure(name, folder)
                rates = f"{seconds:>8.1f} {records / seconds:>10,.0f} {cpu_s:>6.1f} {records / cpu_s:>13,.0f}"
                print(f"{records:>10} {name:>9} {rates} {peak_mb:>8.0f}")


if __name__ == "__main__":
    main()
