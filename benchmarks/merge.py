"""Deduplicating and merging result rows: compaction of a release against a bare copy of the same files.

A backfill (80 % of the rows) and two nights over it (10 % each, half of the second over the first), rows of about 1 KB
in objects of 5,000. Both sides read the same files and write the same store's disk; DuckDB is held to 2 GB. The peak is
the resident set of a process that does nothing else. Then the release that was made is published and rolled back, again
and again, for the latency of both.

    python benchmarks/merge.py --rows 500000 5000000
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.part import result_key
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.release import Layer, ReleasedObject
from resources.duck import connect, quote_list
from resources.releases.compact import compact
from resources.releases.log import ReleaseLog
from resources.result_store.store import open_result_store
from resources.results.parquet import COMPACT_LEVEL, write_parquet
from resources.results.table_schema import PROVENANCE, UNTRUSTED

JOB, NOON, SHARD = "bench", "2026-03-01T12:00:00+00:00", 5_000
MEMORY = "2GB"
SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("category", pa.string(), metadata=UNTRUSTED),
        pa.field("summary", pa.string(), metadata=UNTRUSTED),
        *(pa.field(name, kind, nullable=False) for name, kind in PROVENANCE),
    ]
)
TEXT = " || ' ' || ".join(f"md5(concat(i, '{salt}'))" for salt in "abcdefghijklmnopqrstuv")
ROWS = f"""
    SELECT format('r{{:09d}}', i) AS record_id, ['card', 'fraud', 'other'][1 + i % 3] AS category, {TEXT} AS summary,
        'v-000000000000' AS job_version, 'sha256:00' AS recipe_digest, 'sha256:00' AS model_digest, 0 AS shard,
        i % {SHARD} AS row, 1 AS epoch, 'w' AS worker, 1 AS attempts, 0 AS infrastructure_losses,
        'stop' AS finish_reason, 700 AS prompt_tokens, 500 AS cached_tokens, 150 AS output_tokens,
        md5(i::VARCHAR) AS output_sha256, TIMESTAMPTZ '{NOON}' AS answered_at
    FROM range(?, ?) AS numbers(i)
"""


def make_layer(store: ObjectStore, duck: duckdb.DuckDBPyConnection, version: str, first: int, last: int) -> Layer:
    """Put rows `first` to `last` (excluded) as a version's objects."""
    objects = []
    for start in range(first, last, SHARD):
        table = duck.execute(ROWS, [start, min(start + SHARD, last)]).to_arrow_table().cast(SCHEMA)
        data = write_parquet(table, footer={"job": JOB}, level=COMPACT_LEVEL)
        digest = digest_of_bytes(data)
        key = result_key(JOB, version, start // SHARD, digest)
        store.put_if_absent(key, data)
        objects.append(ReleasedObject(key=key, digest=digest, rows=table.num_rows))
    return Layer(version=version, objects=tuple(objects))


def make(folder: str, rows: int) -> None:
    """Publish the backfill and the nights."""
    store = open_result_store(folder)
    log = ReleaseLog(store, JOB)
    tenth = rows // 10
    spans = [("v-a", 0, 8 * tenth), ("v-b", 0, tenth), ("v-c", tenth // 2, tenth // 2 + tenth)]
    with connect(threads=2) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for number, (version, first, last) in enumerate(spans):
            layer = make_layer(store, duck, version, first, last)
            log.publish(version, [layer], reason="", checks={}, published_at=NOON, base=number or None)


def bare_copy(folder: str) -> dict[str, float]:
    """Copy every row of every layer to one file."""
    store = open_result_store(folder)
    release = ReleaseLog(store, JOB).current()
    assert release is not None  # noqa: S101
    files = quote_list(store.uri(item.key) for layer in release.layers for item in layer.objects)
    with connect(memory_limit=MEMORY, temp_directory=f"{folder}/spill") as duck:
        started = time.perf_counter()
        duck.execute("SET enable_progress_bar = false")
        duck.execute(f"COPY (SELECT * FROM read_parquet({files})) TO '{folder}/copy.parquet' (COMPRESSION zstd)")
        took = time.perf_counter() - started
    Path(folder, "copy.parquet").unlink()
    return {"seconds": took, "rows": release.rows, "peak_mb": peak_mb()}


def fold(folder: str) -> dict[str, float]:
    """Compact the release."""
    store = open_result_store(folder)
    release = ReleaseLog(store, JOB).current()
    assert release is not None  # noqa: S101
    with connect(memory_limit=MEMORY, temp_directory=f"{folder}/spill") as duck:
        started = time.perf_counter()
        done = compact(store, duck, JOB, rows_per_object=SHARD, published_at=NOON)
        took = time.perf_counter() - started
    assert done is not None  # noqa: S101
    return {"seconds": took, "rows": release.rows, "left": done.release.rows, "peak_mb": peak_mb()}


def switch(folder: str) -> dict[str, float]:
    """Append releases of a whole version and roll them back; the medians."""
    log = ReleaseLog(open_result_store(folder), JOB)
    publishing, rolling = [], []
    layers = log.entries()[-1].layers
    for _ in range(15):
        started = time.perf_counter()
        log.publish("v-z", layers, reason="", checks={}, published_at=NOON)
        published = time.perf_counter()
        log.rollback(None, reason="", published_at=NOON)
        rolling.append(time.perf_counter() - published)
        publishing.append(published - started)
    return {"publish_s": statistics.median(publishing), "rollback_s": statistics.median(rolling)}


def peak_mb() -> float:
    """Return the peak resident set of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def alone(function: object, *arguments: object) -> dict[str, float]:
    """Call a function of this module in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: dict[str, float] = pool.apply(function, arguments)  # type: ignore[arg-type]
        return found or {}


def main() -> None:
    """Measure each size and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[500_000, 5_000_000])
    parser.add_argument("--folder", help="where the files go (about 0.6 KB a row, twice); default: the system's")
    options = parser.parse_args()
    print("| rows | bare copy, rows/s | peak MB | merge, rows/s | peak MB | merge / copy | publish s | rollback s |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    found = []
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            alone(make, folder, rows)
            copied, folded, moved = alone(bare_copy, folder), alone(fold, folder), alone(switch, folder)
        rates = [item["rows"] / item["seconds"] for item in (copied, folded)]
        found.append({"rows": rows, "copy": copied, "merge": folded, **moved, "ratio": rates[1] / rates[0]})
        print(
            f"| {rows:,} | {rates[0]:,.0f} | {copied['peak_mb']:,.0f} | {rates[1]:,.0f} | {folded['peak_mb']:,.0f} "
            f"| {rates[1] / rates[0]:.2f} | {moved['publish_s']:.3f} | {moved['rollback_s']:.3f} |",
            flush=True,
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
