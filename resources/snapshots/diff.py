"""The difference of two snapshots by record id and content, in bounded memory: one pass over each.

Content is what the model sees of a record, and its access labels: a label that changed must reach the result, which
inherits it (I9). A carried column that the prompt does not use is no content, so an answer that is kept keeps the value
of the day on which it was made. A value that cannot be used counts by the class of its failure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batch_assets.domain.changes import Change, Changes
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns
from resources.result_store.config import S3Config
from resources.scratch import fills, open_scratch
from resources.snapshots import diff_statements as statements
from resources.snapshots.convert import carry_name
from resources.snapshots.read import batch_schema, read_slices, whole_slices
from resources.snapshots.verify import verify_object

_BATCH_ROWS = 65_536

DIFF_SCHEMA = pa.schema(
    [
        ("record_id", pa.string()),
        ("change", pa.string()),  # `Change`, without the unchanged ones
        ("old_object_index", pa.int32()),  # null where the old snapshot has no such row
        ("old_object_row", pa.int64()),  # 0-based
        ("new_object_index", pa.int32()),
        ("new_object_row", pa.int64()),
    ]
)


class Diff:
    """A difference in a scratch database: `changes` are the counts, the rest is streamed. Close it, or use `with`."""

    def __init__(
        self, old: Snapshot, new: Snapshot, database: duckdb.DuckDBPyConnection, changes: Changes, held: ExitStack
    ) -> None:
        self.changes = changes
        self._places = (_Places(old), _Places(new))
        self._database = database
        self._held = held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the scratch database."""
        self._held.close()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield every row that is not unchanged, as `DIFF_SCHEMA`: by new place, then the old rows by old place.

        Each unusable row is one of its own, with its place in the one snapshot that has it.
        """
        for batch in self._read(statements.READ_CHANGES):
            old, new = (
                places.locate(batch.column(name))
                for places, name in zip(self._places, ("old_place", "new_place"), strict=True)
            )
            head = [batch.column("record_id").cast(pa.string()), batch.column("change").cast(pa.string())]
            yield pa.RecordBatch.from_arrays([*head, *old, *new], schema=DIFF_SCHEMA)

    def gone(self) -> Iterator[pa.Array]:
        """Yield the ids that the old snapshot has and no row of the new one, each once, sorted."""
        for batch in self._read(statements.READ_GONE):
            yield batch.column("record_id").cast(pa.string())

    def wanted(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the places of the new snapshot's rows that are new, changed or unusable, rising.

        A place is a row's number in the whole snapshot, 0-based.
        """
        for batch in self._read(statements.READ_WANTED):
            yield batch.column("new_place").to_numpy()

    def _read(self, statement: str) -> Iterator[pa.RecordBatch]:
        with self._database.cursor() as cursor:  # of its own: another query would end this one
            yield from cursor.execute(statement).to_arrow_reader(_BATCH_ROWS)


def diff_snapshots(
    old: Snapshot,
    new: Snapshot,
    columns: InputColumns,
    prompt_fields: Sequence[str],
    *,
    s3: S3Config | None = None,
    memory_limit: str = "512MB",
    threads: int | None = None,
    scratch_dir: Path | None = None,
) -> Diff:
    """Compare two snapshots of the same columns; the formats may differ.

    Args:
        old: the snapshot that was.
        new: the snapshot that is.
        columns: what a job reads of both.
        prompt_fields: `PromptSpec.fields()`: `text` and carried columns.
        s3: how `s3://` objects are read.
        memory_limit: DuckDB's; it spills into `scratch_dir` beyond it.
        threads: DuckDB's; default: all cores.
        scratch_dir: where the scratch database lies, about 70 bytes and the id for each row of both snapshots;
            default: the system's temporary folder.

    Raises:
        SnapshotChanged: a source object is not any more what its snapshot recorded: what was cannot be compared.
        InputError: an object is damaged.
        ConservationBroken: rows were lost or counted twice (a bug).
    """
    for item in (*old.objects, *new.objects):
        if item.rows:
            verify_object(item, s3)
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="batch-assets-diff-", dir=scratch_dir))
        database = held.enter_context(open_scratch(Path(folder), memory_limit, threads))
        database.execute(statements.CREATE_SCAN)
        names = ["text" if name == "text" else carry_name(name) for name in dict.fromkeys(prompt_fields)]
        fill = statements.fill_scan(names, access=columns.access is not None)
        for snapshot, is_new in ((old, False), (new, True)):
            _fill(database, fill, snapshot, columns, s3, is_new=is_new)
        for statement in (statements.DIFFERING, statements.CHANGES):
            database.execute(statement)
        changes = _count(database)
        changes.check(rows_old=old.rows, rows_new=new.rows)
        return Diff(old, new, database, changes, held.pop_all())


def _fill(
    database: duckdb.DuckDBPyConnection,
    statement: str,
    snapshot: Snapshot,
    columns: InputColumns,
    s3: S3Config | None,
    *,
    is_new: bool,
) -> None:
    place = 0
    schema = batch_schema(columns).append(pa.field("place", pa.int64()))

    def placed() -> Iterator[pa.RecordBatch]:
        nonlocal place
        for batch in read_slices(snapshot, whole_slices(snapshot), columns, s3=s3):
            places = pa.arange(place, place + batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, places], schema=schema)
            place += batch.num_rows

    for rows in fills(placed(), schema):
        database.register("batch", rows)
        database.execute(statement, [is_new])
        database.unregister("batch")


def _count(database: duckdb.DuckDBPyConnection) -> Changes:
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


class _Places:
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
