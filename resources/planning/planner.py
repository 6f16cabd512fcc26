"""Planning a version: cut the snapshot into shards, and refuse, each with its reason, records that can get no answer.

One pass over the snapshot: Arrow reads, DuckDB judges and keeps a few numbers and the id of every record in a scratch
database on disk, in which ids that repeat are found. Memory does not grow with the snapshot, only with the refused
records (they are the result).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from batch_assets.domain.errors import ConservationBroken
from batch_assets.domain.plan import Plan, Shard, Slice, cut_shards
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns, JobSpec, version_name
from resources.planning import statements
from resources.planning.dead_letters import write_refused
from resources.planning.tokens import Counter
from resources.result_store.config import S3Config
from resources.scratch import fills, open_scratch
from resources.snapshots.convert import carry_name
from resources.snapshots.diff_statements import content_sql
from resources.snapshots.read import batch_schema, read_slices, whole_slices

BYTES_PER_TOKEN = 4  # of text, roughly; for showing and ordering work, never for deciding about a record


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, the refused records as Parquet of `DEAD_LETTER_SCHEMA` by shard and row, and their number by failure."""

    plan: Plan
    refused: bytes
    failures: Mapping[str, int]


def plan_version(
    spec: JobSpec,
    snapshot: Snapshot,
    *,
    tokens: Counter,
    s3: S3Config | None = None,
    memory_limit: str = "512MB",
    threads: int | None = None,
    scratch_dir: Path | None = None,
) -> Planned:
    """Plan a job version; the same spec and snapshot always give the same plan and the same bytes of refused records.

    A shard's estimated tokens are its answerable records' text bytes / 4, without the prompt. Needs about 50 bytes
    and the id for each record in `scratch_dir` (default: the system's temporary folder).

    Raises:
        InputError: an object of the snapshot is damaged, or there are too many shards.
        SnapshotChanged: an object has fewer rows than the snapshot recorded.
    """
    pieces = cut_shards([item.rows for item in snapshot.objects], spec.shard_size)
    version = version_name(spec, snapshot.digest)
    with (
        tempfile.TemporaryDirectory(prefix="batch-assets-plan-", dir=scratch_dir) as folder,
        open_scratch(Path(folder), memory_limit, threads) as database,
    ):
        _judge(database, spec, snapshot, tokens, s3)
        shards = _shards(database, pieces, spec.shard_size)
        failures: dict[str, int] = dict(database.execute(statements.COUNT_FAILURES).fetchall())
        refused = write_refused(database, spec, snapshot, version)
    plan = Plan(version=version, shards=shards)
    if plan.records != snapshot.rows or plan.refused != sum(failures.values()):
        raise ConservationBroken(
            f"planned {plan.records} of {snapshot.rows} records, {plan.refused} refused of {sum(failures.values())}"
        )
    return Planned(plan=plan, refused=refused, failures=failures)


def _judge(
    database: duckdb.DuckDBPyConnection, spec: JobSpec, snapshot: Snapshot, tokens: Counter, s3: S3Config | None
) -> None:
    """Fill the scratch tables from one pass over the snapshot."""
    columns = spec.input.columns
    schema = batch_schema(columns).append(pa.field("place", pa.int64())).append(pa.field("tokens", pa.int64()))
    content = content_sql(["text", *map(carry_name, columns.carry)], access=True)
    create, fill = (text.replace("$content", content) for text in (statements.CREATE_SCAN, statements.FILL_SCAN))
    for rows in fills(_batches(spec, snapshot, tokens, s3, schema), schema):
        database.register("batch", rows)
        database.execute(create)
        database.execute(fill)
        database.unregister("batch")
    for statement in (statements.REPEATED, statements.TWINS, statements.FAMILIES, statements.REFUSED):
        database.execute(statement)


def _batches(
    spec: JobSpec, snapshot: Snapshot, tokens: Counter, s3: S3Config | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield every row of the snapshot with its place, and its tokens where they are over the job's limit."""
    columns: InputColumns = spec.input.columns
    place = 0
    for batch in read_slices(snapshot, whole_slices(snapshot), columns, s3=s3):
        places = pa.arange(place, place + batch.num_rows)
        over = _over_length(batch.column("text"), tokens, spec.limits.input_tokens_max)
        yield pa.RecordBatch.from_arrays([*batch.columns, places, over], schema=schema)
        place += batch.num_rows


def _over_length(texts: pa.Array, tokens: Counter, limit: int) -> pa.Array:
    """Return token counts where they are over the limit, else null. A token is at least one byte: few are counted."""
    long = pc.indices_nonzero(pc.fill_null(pc.greater(pc.binary_length(texts), limit), False))
    if not len(long):
        return pa.nulls(len(texts), pa.int64())
    counts: list[int | None] = [None] * len(texts)
    for row, count in zip(long.to_pylist(), tokens.over(texts.take(long).to_pylist(), limit), strict=True):
        counts[row] = count
    return pa.array(counts, pa.int64())


def _shards(database: duckdb.DuckDBPyConnection, pieces: list[tuple[Slice, ...]], shard_size: int) -> tuple[Shard, ...]:
    def totals(table: str) -> dict[int, tuple[int, int]]:
        rows = database.execute(statements.SHARD_TOTALS.format(table=table, shard_size=shard_size)).fetchall()
        return {shard: (records, text_bytes) for shard, records, text_bytes in rows}

    everything, refused = totals("scan"), totals("refused")
    shards = []
    for index, slices in enumerate(pieces):
        records, text_bytes = everything.get(index, (0, 0))
        refused_records, refused_bytes = refused.get(index, (0, 0))
        shards.append(
            Shard(
                index=index,
                slices=slices,
                records=records,
                refused=refused_records,
                estimated_tokens=int(text_bytes - refused_bytes) // BYTES_PER_TOKEN,
            )
        )
    return tuple(shards)
