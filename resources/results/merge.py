"""Finishing a shard: its parts become one compact object of results and, if there are any, one of dead letters.

What counts is decided on keys alone (which part, which row, which id), by DuckDB; the rows themselves are then taken
from the parts untouched, so no value and no column tag passes through another type system.

A row in several parts counts once: the first committed wins. A row with a result and a dead letter is answered: a
valid answer that is stored is worth more than the note that there was none.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.errors import ConservationBroken, ObjectDamaged, RecipeMixed
from batch_assets.domain.lease import Lease, Outcome
from batch_assets.domain.part import dead_result_key, is_dead_part, result_key
from batch_assets.domain.plan import Shard
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.spec import JobSpec
from resources.results.parquet import COMPACT_LEVEL, fetch_parquet, write_parquet
from resources.results.staging import provenance_footer
from resources.results.table_schema import DEAD_LETTER_SCHEMA, result_schema

_FIRST_OF_EACH_ROW = """
    SELECT position, row, record_id FROM results
    QUALIFY row_number() OVER (PARTITION BY row ORDER BY position) = 1 ORDER BY row
"""
_FIRST_UNANSWERED = """
    SELECT position, row, record_id FROM dead ANTI JOIN results USING (row)
    QUALIFY row_number() OVER (PARTITION BY row ORDER BY position) = 1 ORDER BY row
"""
_RECORDS_IN_TWO_ROWS = """
    SELECT count(*) FROM (SELECT record_id FROM (
        SELECT row, record_id FROM results UNION SELECT row, record_id FROM dead WHERE record_id IS NOT NULL
    ) GROUP BY record_id HAVING count(*) > 1)
"""
_ROWS_OF_TWO_RECORDS = """
    SELECT count(*) FROM (SELECT row FROM (
        SELECT row, record_id FROM results UNION SELECT row, record_id FROM dead
    ) GROUP BY row HAVING count(*) > 1)
"""


def finish_shard(
    store: ObjectStore,
    duck: duckdb.DuckDBPyConnection,
    spec: JobSpec,
    lease: Lease,
    shard: Shard,
    part_keys: Sequence[str],
) -> Outcome:
    """Merge a shard's parts, put the compact objects, and return what the shard table is told.

    Args:
        store: where parts are and compact objects go.
        duck: any connection; nothing is left in it.
        spec: the version's spec.
        lease: the live lease.
        shard: the shard, from the plan.
        part_keys: accepted and own parts, first committed first.

    The token sums of the outcome are those of the answers and dead letters that count; what repeated and lost tries
    cost is not in them. The same parts give the same objects, so a second try after a lost answer changes nothing.

    Raises:
        ConservationBroken: the rows are not exactly the shard's records (I6); nothing was put.
        RecipeMixed: a row is not of this version, recipe, model and shard (I2); nothing was put.
        ObjectMissing, ObjectDamaged: a part is not there or not readable.
    """
    live = [key for key in part_keys if not is_dead_part(key)]
    dead = [key for key in part_keys if is_dead_part(key)]
    results = _concat(store, live, result_schema(spec))
    letters = _concat(store, dead, DEAD_LETTER_SCHEMA)
    for table in (results, letters):
        _check_origin(table, spec, lease, shard)
    results, letters = _merge(duck, results, letters, shard)
    footer = {**provenance_footer(spec, lease.version), "shard": str(shard.index)}
    result_at, result_digest = _put(store, spec.name, lease, results, footer)
    dead_at, dead_digest = (
        _put(store, spec.name, lease, letters, footer, dead=True) if letters.num_rows else (None, None)
    )
    return Outcome(
        results=results.num_rows,
        dead_letters=letters.num_rows,
        result_key=result_at,
        result_digest=result_digest,
        dead_key=dead_at,
        dead_digest=dead_digest,
        prompt_tokens=_total(results, "prompt_tokens") + _total(letters, "prompt_tokens"),
        cached_tokens=_total(results, "cached_tokens"),
        output_tokens=_total(results, "output_tokens") + _total(letters, "output_tokens"),
    )


def _concat(store: ObjectStore, keys: Sequence[str], schema: pa.Schema) -> pa.Table:
    tables = []
    for key in keys:
        table = fetch_parquet(store, key, schema.names).select(schema.names)
        try:
            tables.append(table.cast(schema))
        except pa.ArrowInvalid as error:
            raise ObjectDamaged(f"{key} is not a table of this job: {error}") from error
    return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()


def _check_origin(table: pa.Table, spec: JobSpec, lease: Lease, shard: Shard) -> None:
    expected = {
        "job_version": lease.version,
        "recipe_digest": spec.recipe_digest,
        "model_digest": spec.model.digest,
        "shard": shard.index,
    }
    for column, value in expected.items():
        others = set(pc.unique(table.column(column)).to_pylist()) - {value}
        if others:
            shown = ", ".join(sorted(str(other) for other in others))
            raise RecipeMixed(
                f"shard {shard.index} of {lease.version}: parts hold rows of {column} {shown}, expected {value}"
            )


def _keys(table: pa.Table) -> pa.Table:
    position = pa.array(range(table.num_rows), pa.int64())
    return pa.table({"position": position, "row": table.column("row"), "record_id": table.column("record_id")})


def _merge(
    duck: duckdb.DuckDBPyConnection, results: pa.Table, letters: pa.Table, shard: Shard
) -> tuple[pa.Table, pa.Table]:
    cursor = duck.cursor()  # its own registrations: two merges may share a connection
    try:
        cursor.register("results", _keys(results))
        cursor.register("dead", _keys(letters))
        answered = cursor.sql(_FIRST_OF_EACH_ROW).to_arrow_table()
        buried = cursor.sql(_FIRST_UNANSWERED).to_arrow_table()
        doubled = [_count(cursor, _RECORDS_IN_TWO_ROWS), _count(cursor, _ROWS_OF_TWO_RECORDS)]
    finally:
        cursor.close()
    _check_conserved(answered, buried, doubled, shard)
    return results.take(answered.column("position")), letters.take(buried.column("position"))


def _count(cursor: duckdb.DuckDBPyConnection, query: str) -> int:
    row = cursor.execute(query).fetchone()
    return int(row[0]) if row else 0


def _check_conserved(answered: pa.Table, buried: pa.Table, doubled: Sequence[int], shard: Shard) -> None:
    expected = shard.records - shard.refused
    outside = sum(
        not 0 <= row < shard.records for table in (answered, buried) for row in table.column("row").to_pylist()
    )
    problems = []
    if answered.num_rows + buried.num_rows != expected:
        problems.append(
            f"{answered.num_rows} results + {buried.num_rows} dead letters are not "
            f"{shard.records} records - {shard.refused} refused at planning"
        )
    if outside:
        problems.append(f"{outside} rows lie outside of its {shard.records} records")
    if doubled[0]:
        problems.append(f"{doubled[0]} record ids stand in more than one row")
    if doubled[1]:
        problems.append(f"{doubled[1]} rows stand under more than one record id")
    if problems:
        raise ConservationBroken(f"shard {shard.index}: {'; '.join(problems)}")


def _put(
    store: ObjectStore, job: str, lease: Lease, table: pa.Table, footer: dict[str, str], *, dead: bool = False
) -> tuple[str, str]:
    data = write_parquet(table, footer=footer, level=COMPACT_LEVEL)
    digest = digest_of_bytes(data)
    key = (dead_result_key if dead else result_key)(job, lease.version, lease.shard, digest)
    store.put_if_absent(key, data)
    return key, digest


def _total(table: pa.Table, column: str) -> int:
    return pc.sum(table.column(column)).as_py() or 0
