"""Reading a snapshot's rows: whatever the source was, the same columns, only the row groups needed, bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import repeat
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.errors import InputError, SnapshotChanged
from batch_assets.domain.plan import Shard, Slice
from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from batch_assets.domain.spec import InputColumns
from resources.result_store.config import S3Config
from resources.snapshots.convert import carry_name
from resources.snapshots.faults import find_faults
from resources.snapshots.parquet import open_parquet
from resources.snapshots.types import LABELS, TEXT, to_labels, to_text
from resources.snapshots.verify import verify_object

BATCH_BYTES = 16 << 20  # of a batch, uncompressed, by its row group's average
BATCH_ROWS_MAX = 65_536


class SourceRow(NamedTuple):
    """One record to answer. `row` is its place in the shard, 0-based; a null access column stays None."""

    row: int
    record_id: str
    text: str
    carry: tuple[str | None, ...]
    access: tuple[str, ...] | None


def batch_schema(columns: InputColumns) -> pa.Schema:
    """Return the columns that `read_slices` gives for every source.

    `failure` and `reason` are set where a value cannot be used, `object_row` is 0-based, `line` is the source's line
    (1-based) for text formats and null for Parquet.
    """
    return pa.schema(
        [
            ("record_id", TEXT),
            ("text", TEXT),
            *((carry_name(name), TEXT) for name in columns.carry),
            ("access", LABELS),
            ("failure", pa.string()),
            ("reason", pa.string()),
            ("object_index", pa.int32()),
            ("object_row", pa.int64()),
            ("line", pa.int64()),
        ]
    )


def read_slices(
    snapshot: Snapshot, slices: Iterable[Slice], columns: InputColumns, *, s3: S3Config | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `slices`, in order, in batches of `batch_schema`.

    Raises:
        InputError: an object is damaged; the message names it. SnapshotChanged: it has fewer rows than recorded.
    """
    schema = batch_schema(columns)
    for piece in slices:
        item = snapshot.objects[piece.object_index]
        row = piece.start
        for batch in _read_rows(item, piece, columns, s3):
            arrays = _uniform(item, batch, columns, schema)
            places = [pa.repeat(pa.scalar(piece.object_index, pa.int32()), batch.num_rows)]
            places += [pa.arange(row, row + batch.num_rows)]
            lines = batch.column("_line") if item.converted else pa.nulls(batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_arrays([*arrays, *places, lines], schema=schema)
            row += batch.num_rows
        if row != piece.stop:
            raise SnapshotChanged(f"{item.data_uri}: ends at row {row}, the snapshot recorded {item.rows}")


def whole_slices(snapshot: Snapshot) -> Iterator[Slice]:
    """Yield one slice for each object that has rows."""
    return (Slice(object_index=i, start=0, stop=item.rows) for i, item in enumerate(snapshot.objects) if item.rows)


class SnapshotReader:
    """Reads shards of one snapshot for a worker, which answers each row that it yields."""

    def __init__(self, snapshot: Snapshot, columns: InputColumns, *, s3: S3Config | None = None) -> None:
        self._snapshot = snapshot
        self._columns = columns
        self._s3 = s3

    def read_shard(self, shard: Shard, *, skip: Collection[int] = frozenset()) -> Iterator[SourceRow]:
        """Yield a shard's rows in order, without those at the places in `skip` (refused, answered).

        Raises:
            SnapshotChanged: an object is not the one in the snapshot, or is damaged.
        """
        for item in {piece.object_index: self._snapshot.objects[piece.object_index] for piece in shard.slices}.values():
            verify_object(item, self._s3)
        place = 0
        try:
            for batch in read_slices(self._snapshot, shard.slices, self._columns, s3=self._s3):
                yield from self._rows(batch, place, skip)
                place += batch.num_rows
        except InputError as error:  # planning could read it
            raise SnapshotChanged(str(error)) from error

    def _rows(self, batch: pa.RecordBatch, first: int, skip: Collection[int]) -> Iterator[SourceRow]:
        places: Iterable[int] = range(first, first + batch.num_rows)
        if skip:
            places = [place for place in places if place not in skip]
            batch = batch.take(pa.array([place - first for place in places], pa.int64()))
        ids, texts, *rest = batch.columns
        if ids.null_count or texts.null_count:
            raise SnapshotChanged("a record without id or text was not refused at planning: the plan is another's")
        carried = [array.to_pylist() for array in rest[: len(self._columns.carry)]]
        carry = zip(*carried, strict=True) if carried else repeat(())
        access: Iterable[tuple[str, ...] | None] = repeat(None)
        if self._columns.access:
            access = [None if labels is None else tuple(labels) for labels in batch.column("access").to_pylist()]
        yield from map(SourceRow, places, ids.to_pylist(), texts.to_pylist(), carry, access)


def _read_rows(
    item: SnapshotObject, piece: Slice, columns: InputColumns, s3: S3Config | None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns that are read, of the piece's rows, as they are stored."""
    if item.converted:
        names = ["record_id", "text", *map(carry_name, columns.carry), "access", "_failure", "_reason", "_line"]
    else:
        names = list(columns.all)
    try:
        with open_parquet(item.data_uri, s3) as file:
            groups, skipped, average_bytes = _groups(file.metadata, piece)
            batch_rows = int(max(1, min(BATCH_ROWS_MAX, BATCH_BYTES // average_bytes)))
            left = piece.rows
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=names, use_threads=False):
                wanted = batch.slice(skipped, left)
                skipped = max(0, skipped - batch.num_rows)
                left -= wanted.num_rows
                if wanted.num_rows:
                    yield wanted
                if not left:
                    return
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{item.data_uri}: cannot be read: {error}") from error


def _groups(footer: pq.FileMetaData, piece: Slice) -> tuple[list[int], int, int]:
    """Return the row groups that hold the piece, the rows of the first before it, and their average bytes a row."""
    groups: list[int] = []
    skipped = stored_bytes = rows = first_row = 0
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        if first_row < piece.stop and first_row + group.num_rows > piece.start:
            skipped = skipped if groups else piece.start - first_row
            groups.append(index)
            stored_bytes += group.total_byte_size
            rows += group.num_rows
        first_row += group.num_rows
    return groups, skipped, max(1, stored_bytes // max(1, rows))


def _uniform(item: SnapshotObject, batch: pa.RecordBatch, columns: InputColumns, schema: pa.Schema) -> list[pa.Array]:
    """Return the batch's columns up to `reason` in the types of `batch_schema`."""
    width = 2 + len(columns.carry)
    if item.converted:
        texts = [array.cast(TEXT) for array in batch.columns[:width]]
        return [*texts, batch.column("access").cast(LABELS), batch.column("_failure"), batch.column("_reason")]
    texts = [to_text(batch.column(name)) for name in columns.all[:width]]
    access = to_labels(batch.column(columns.access)) if columns.access else pa.nulls(batch.num_rows, LABELS)
    usable = pa.RecordBatch.from_arrays([*texts, access], schema=pa.schema(list(schema)[: width + 1]))
    clean, failure, reason = find_faults(usable, columns)
    return [*clean.columns, failure, reason]
