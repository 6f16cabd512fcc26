"""Coverage (I6, I1): every record of the snapshot has one result or one dead letter, counted from stored objects.

The shard table is believed only about which objects belong to a shard. Each object is read whole and compared with
its digest; its rows are counted by DuckDB, which spills to disk beyond its memory limit; its record ids are compared
with the source's, one source object at a time.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.plan import Plan
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import SnapshotObject
from batch_assets.domain.validation import CheckResult, Coverage
from resources.registry import RegisteredVersion
from resources.results.coverage_keys import load_keys, place_objects, place_shards

EXAMPLES_MAX = 20

_COUNT = "SELECT count(DISTINCT position) FROM keys WHERE position IS NOT NULL AND dead = ?"
_BOTH = """
    SELECT any_value(record_id), count(*) OVER () FROM keys
    WHERE NOT dead AND position IN (SELECT position FROM keys WHERE dead AND position IS NOT NULL)
    GROUP BY position LIMIT ?
"""
# Hashes first: 8 bytes a group whatever the ids are; the few that repeat are then compared as text.
_DUPLICATES = """
    WITH repeated AS (
        SELECT hash(record_id) AS id_hash FROM keys WHERE NOT dead GROUP BY id_hash HAVING count(*) > 1
    )
    SELECT record_id, count(*) OVER () FROM keys
    WHERE NOT dead AND hash(record_id) IN (SELECT id_hash FROM repeated)
    GROUP BY record_id HAVING count(*) > 1 LIMIT ?
"""
_OUTSIDE = """
    SELECT format('shard {} row {}: {}', shard, row, coalesce(record_id, 'no id')), count(*) OVER ()
    FROM keys WHERE position IS NULL LIMIT ?
"""
_NOT_THE_SOURCE = """
    SELECT format('shard {} row {}: {}', shard, row, keys.record_id), count(*) OVER ()
    FROM keys LEFT JOIN (
        SELECT $start + file_row_number AS position, CAST({id} AS VARCHAR) AS record_id
        FROM read_parquet($uri, file_row_number = true) WHERE file_row_number < $rows
    ) AS source USING (position)
    WHERE position >= $start AND position < $start + $rows
        AND keys.record_id IS NOT NULL AND keys.record_id IS DISTINCT FROM source.record_id
    LIMIT $most
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageReport:
    """Coverage with names: objects that are missing or damaged (with what is wrong), and examples of each count."""

    coverage: Coverage
    unreadable: tuple[str, ...] = ()
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def check(self, *, blocking: bool) -> CheckResult:
        """Return the verdict, with details as plain JSON values.

        Objects that cannot be read block whatever the job's gate says: a release that names them reads as an error.
        """
        found = self.coverage
        problems = [*found.problems(), *(["unreadable: " + "; ".join(self.unreadable)] if self.unreadable else [])]
        sentence = f"{found.results:,} results + {found.dead_letters:,} dead letters = {found.records:,} records"
        details: dict[str, object] = {
            "records": found.records,
            "results": found.results,
            "dead_letters": found.dead_letters,
            "pending": found.pending,
            "duplicate_keys": found.duplicate_keys,
            "foreign_keys": found.foreign_keys,
            "both": found.both,
            "shards_missing": found.shards_missing,
            "unreadable_objects": list(self.unreadable),
            "examples": {name: list(shown) for name, shown in self.examples.items() if shown},
        }
        return CheckResult(
            name="coverage",
            passed=not problems,
            blocking=blocking or bool(self.unreadable),
            summary="; ".join(problems) if problems else sentence,
            details=details,
        )


def measure_coverage(
    store: ObjectStore,
    duck: duckdb.DuckDBPyConnection,
    entry: RegisteredVersion,
    plan: Plan,
    refused_key: str,
    shard_rows: Sequence[ShardRow],
) -> CoverageReport:
    """Count a version from its compact objects, dead letters and refused records.

    Args:
        store: where the objects are.
        duck: a connection that can read the snapshot's objects; a temporary table is made in it and dropped.
        entry: the version.
        plan: its plan.
        refused_key: the Parquet of records refused at planning.
        shard_rows: the shard table's rows of the version; only what they name as outcome is used.

    Raises:
        ConservationBroken: the plan does not cut this snapshot without gaps.
        ObjectMissing, ObjectDamaged: the refused records cannot be read.
    """
    places = place_shards(plan, entry.snapshot)
    cursor = duck.cursor()
    try:
        done = [(row.shard, row.outcome) for row in shard_rows if row.state is ShardState.DONE and row.outcome]
        unreadable, lost = load_keys(store, cursor, places, done, refused_key)
        columns = entry.spec.input.columns
        foreign = _Found.of(cursor, _OUTSIDE)
        for start, item in place_objects(entry.snapshot):
            try:
                foreign += _compare(cursor, item, start, "record_id" if item.converted else columns.id)
            except duckdb.Error as error:
                unreadable.append(f"source object {item.data_uri}: {str(error).splitlines()[0]}")
        duplicates, both = _Found.of(cursor, _DUPLICATES), _Found.of(cursor, _BOTH)
        results, dead = (_count(cursor, dead=dead) for dead in (False, True))
    finally:
        cursor.execute("DROP TABLE IF EXISTS keys")
        cursor.close()
    finished = {shard for shard, _ in done} - lost
    return CoverageReport(
        coverage=Coverage(
            records=entry.snapshot.rows,
            results=results,
            dead_letters=dead,
            duplicate_keys=duplicates.count,
            foreign_keys=foreign.count,
            both=both.count,
            shards_missing=sum(shard.index not in finished for shard in plan.shards),
        ),
        unreadable=tuple(unreadable),
        examples={"duplicate_keys": duplicates.shown, "foreign_keys": foreign.shown, "both": both.shown},
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """How many, and the first of them."""

    count: int = 0
    shown: tuple[str, ...] = ()

    def __add__(self, other: _Found) -> _Found:
        return _Found(self.count + other.count, (*self.shown, *other.shown)[:EXAMPLES_MAX])

    @classmethod
    def of(cls, cursor: duckdb.DuckDBPyConnection, query: str) -> _Found:
        return cls.rows(cursor.execute(query, [EXAMPLES_MAX]).fetchall())

    @classmethod
    def rows(cls, rows: list[tuple[str, int]]) -> _Found:
        return cls(rows[0][1], tuple(str(row[0]) for row in rows)) if rows else cls()


def _count(cursor: duckdb.DuckDBPyConnection, *, dead: bool) -> int:
    row = cursor.execute(_COUNT, [dead]).fetchone()
    return int(row[0]) if row else 0


def _compare(cursor: duckdb.DuckDBPyConnection, item: SnapshotObject, start: int, id_column: str) -> _Found:
    quoted = '"' + id_column.replace('"', '""') + '"'
    query = _NOT_THE_SOURCE.replace("{id}", quoted)
    values = {"uri": glob.escape(item.data_uri), "start": start, "rows": item.rows, "most": EXAMPLES_MAX}
    return _Found.rows(cursor.execute(query, values).fetchall())
