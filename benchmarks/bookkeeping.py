"""What everything around the model costs: rows/s of one worker with an engine that answers at once.

One worker process, SQLite and a local folder, from a registered version to its finished shards: reading, tokenizing,
validating, parts, merge, leases. Memory is the worker's peak resident set. The source is made and planned in a process
of its own: Linux counts a parent's peak into the `ru_maxrss` of a child that it starts.

    python benchmarks/bookkeeping.py --records 10000 100000 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.spec import DecodingSpec, InputSpec, JobSpec, LimitsSpec, ModelSpec, PromptSpec
from resources.flow import take_and_register
from resources.platform import Platform
from resources.settings import Settings

WORDS = [
    "card",
    "transfer",
    "refund",
    "charge",
    "account",
    "login",
    "password",
    "hotel",
    "flight",
    "order",
    "phone",
    "bank",
    "loan",
    "fee",
    "please",
    "help",
]
SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"type": "string", "enum": ["card", "fraud", "loan", "other"]},
        "summary": {"type": "string", "maxLength": 120},
        "urgent": {"type": "boolean"},
    },
    "required": ["category", "summary", "urgent"],
    "additionalProperties": False,
}


def write_source(path: Path, records: int) -> None:
    """Write `records` distinct messages of 5 to 40 words, in row groups of 50,000."""
    rng = np.random.default_rng(7)
    schema = pa.schema([("record_id", pa.string()), ("text", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, records, 50_000):
            count = min(50_000, records - start)
            lengths = rng.integers(5, 41, count)
            words = rng.integers(0, len(WORDS), (count, 40))
            texts = [f"{start + n} " + " ".join(WORDS[word] for word in words[n, : lengths[n]]) for n in range(count)]
            ids = [f"r{start + n:09d}" for n in range(count)]
            writer.write_table(pa.table({"record_id": ids, "text": texts}, schema=schema))


def make_spec(source: Path, model: Path | None) -> JobSpec:
    """Return a job over the source with the fake engine; with a model folder, its tokenizer is used."""
    return JobSpec(
        name="bookkeeping",
        input=InputSpec(uri=str(source)),
        model=ModelSpec(
            name="fake",
            path=str(model or source.parent / "none"),
            digest="sha256:" + "0" * 64,
            engine="fake",
            max_num_seqs=256,
            max_model_len=100_000,
        ),
        prompt=PromptSpec(system="Sort the message of the customer into one category. " * 10),
        decoding=DecodingSpec(max_tokens=100),
        output_schema=json.dumps(SCHEMA, sort_keys=True),
        limits=LimitsSpec(input_tokens_max=4_000),
        shard_size=5_000,
    )


def prepare(folder: Path, records: int, model: Path | None) -> str:
    """Write the source and register its version below `folder`; return the version."""
    source = folder / "source.parquet"
    write_source(source, records)
    return take_and_register(Platform.open(Settings(data_dir=folder / "data")), make_spec(source, model)).version


def run(records: int, model: Path | None) -> dict[str, float]:
    """Plan `records` and run one worker over them; return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            version = pool.submit(prepare, Path(folder), records, model).result()
        settings = Settings(data_dir=Path(folder) / "data")
        platform = Platform.open(settings)
        started = time.perf_counter()
        worker = subprocess.Popen(
            [sys.executable, "-m", "worker", "--version", version, "--worker", "bench"],
            env={**os.environ, **settings.environment()},
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(worker.pid, 0)
        wall_s = time.perf_counter() - started
        counts = platform.table.counts(version)
        if status != 0 or counts is None or counts.results != records:
            raise SystemExit(f"the worker ended with {status}, counts {counts}")
        rows = [row.finished_at_s or 0.0 for row in platform.table.shards(version)]
        steady = (len(rows) - 1) * 5_000 / (max(rows) - min(rows)) if len(rows) > 1 else records / wall_s
        return {
            "records": records,
            "wall_s": round(wall_s, 1),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
            "rows_per_s": round(records / wall_s),
            "rows_per_s_steady": round(steady),
            "peak_rss_mb": round(usage.ru_maxrss / 1024),
        }


def main() -> None:
    """Print one JSON line a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--model", type=Path, help="model folder whose tokenizer is used (default: bytes)")
    arguments = parser.parse_args()
    for records in arguments.records:
        print(json.dumps(run(records, arguments.model)), flush=True)


if __name__ == "__main__":
    main()
