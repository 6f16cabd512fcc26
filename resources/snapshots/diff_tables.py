"""The tables of a diff: filled from two snapshots, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import duckdb
import numpy as np
import pyarrow as pa

from batch_assets.domain.changes import Change, Changes
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns
from resources.result_store.config import S3Config
from resources.scratch import fills
from resources.snapshots import diff_statements as statements
from resources.snapshots.read import batch_schema, read_slices, whole_slices

PLACED = pa.field("place", pa.int64())


def placed_rows(snapshot: Snapshot, columns: InputColumns, s3: S3Config | None) -> Iterator[pa.RecordBatch]:
    """Yield every row of a snapshot as `batch_schema` and its place, the row's number in the snapshot, 0-based."""
    place = 0
    schema = batch_schema(columns).append(PLACED)
    for batch in read_slices(snapshot, whole_slices(snapshot), columns, s3=s3):
        places = pa.arange(place, place + batch.num_rows)
        yield pa.RecordBatch.from_arrays([*batch.columns, places], schema=schema)
        place += batch.num_rows


def fill(
    database: duckdb.DuckDBPyConnection,
    statement: str,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    is_new: bool,
) -> None:
    """Add rows to the table `scan`, a bounded number at a time."""
    for rows in fills(batches, schema):
        database.register("batch", rows)
        database.execute(statement, [is_new])
        database.unregister("batch")


def count_changes(database: duckdb.DuckDBPyConnection) -> Changes:
    """Return the counts of the table `changes`."""

    def one(statement: str) -> tuple[int, ...]:
        return database.execute(statement).fetchall()[0]

    counted = {change: (old, new) for change, old, new in database.execute(statements.COUNT_CHANGES).fetchall()}
    old = {name: counted.get(name, (0, 0))[0] for name in Change}
    new = {name: counted.get(name, (0, 0))[1] for name in Change}
    rows_new = one(statements.COUNT_NEW)[0]
    return Changes(
        new=new[Change.NEW],
        changed=new[Change.CHANGED],
        deleted=old[Change.DELETED],
        unchanged=rows_new - new[Change.NEW] - new[Change.CHANGED] - new[Change.UNUSABLE],
        unusable_old=old[Change.UNUSABLE],
        unusable_new=new[Change.UNUSABLE],
        blurred=one(statements.COUNT_BLURRED)[0],
        unusable_alike=bool(one(statements.UNUSABLE_MARKS)[0]),
    )


class Places:
    """Where a row's number in the whole snapshot is."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._starts = np.cumsum([0, *(item.rows for item in snapshot.objects)], dtype=np.int64)

    def locate(self, places: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the object's index and the row in it, both 0-based, of each place; null stays null."""
        absent = np.asarray(places.is_null())
        numbers = places.fill_null(0).to_numpy()
        indexes = np.searchsorted(self._starts, numbers, side="right") - 1
        rows = numbers - self._starts[indexes]
        return pa.array(indexes, pa.int32(), mask=absent), pa.array(rows, pa.int64(), mask=absent)
