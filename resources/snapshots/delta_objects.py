"""Some rows of a snapshot as objects of its converted form: what a delta's workers read.

For each object of the source that has such rows there is one (or several, cut at about `CHUNK_BYTES`), named after it,
so that a dead letter still says where its record came from: the line stays that of the source, and the column
`_object_row`, which only people read, is the row in the source's object, 0-based.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batch_assets.domain.errors import ConservationBroken
from batch_assets.domain.plan import Slice
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns
from resources.result_store.config import S3Config
from resources.snapshots.convert import CHUNK_BYTES, GROUP_BYTES, GROUP_ROWS, schema_of
from resources.snapshots.read import read_slices

Places = npt.NDArray[np.int64]
TOMBSTONE_SCHEMA = pa.schema([("record_id", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaObject:
    """One object: its bytes, the source's object that it has rows of, and which of that one's delta objects it is.

    `text_bytes` are those of the ids, texts and carried values: unlike the Parquet's own size they do not depend on
    the library that wrote it.
    """

    data: bytes
    object_index: int
    part: int
    rows: int
    text_bytes: int


def delta_schema(columns: InputColumns) -> pa.Schema:
    """Return the columns of a delta's objects: the converted form, and the row in the source's object."""
    return schema_of(columns).append(pa.field("_object_row", pa.int64()))


def select_rows(
    snapshot: Snapshot, wanted: Iterator[Places], columns: InputColumns, s3: S3Config | None
) -> Iterator[DeltaObject]:
    """Yield the objects that hold the rows at the rising places `wanted` (row numbers in the whole snapshot).

    Reads each object of the source once, from the first wanted row to the last, and holds one delta object in memory.

    Raises:
        InputError, SnapshotChanged: a source object is damaged, or has fewer rows than it had.
        ConservationBroken: a wanted row was not found (a bug).
    """
    first = 0
    queue = _Queue(wanted)
    for index, item in enumerate(snapshot.objects):
        start = queue.next_below(first + item.rows)
        if start is not None:
            piece = Slice(object_index=index, start=start - first, stop=item.rows)
            found = _matching(snapshot, piece, first, queue, columns, s3)
            yield from _objects(found, index, columns)
        first += item.rows
    queue.check_empty()


def write_ids(pieces: Iterable[pa.Array]) -> tuple[bytes, int]:
    """Return ids as Parquet of `TOMBSTONE_SCHEMA`, and how many there are."""
    sink = io.BytesIO()
    count = 0
    with pq.ParquetWriter(sink, TOMBSTONE_SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        for ids in pieces:
            writer.write_batch(pa.RecordBatch.from_arrays([ids], schema=TOMBSTONE_SCHEMA))
            count += len(ids)
    return sink.getvalue(), count


class _Queue:
    """Rising places, taken from the front; only some of them are in memory."""

    def __init__(self, pieces: Iterator[Places]) -> None:
        self._pieces = pieces
        self._waiting: Places = np.empty(0, np.int64)

    def next_below(self, stop: int) -> int | None:
        """Return the next place if it is below `stop`."""
        while not len(self._waiting):
            piece = next(self._pieces, None)
            if piece is None:
                return None
            self._waiting = piece
        return int(self._waiting[0]) if self._waiting[0] < stop else None

    def take(self, stop: int) -> Places:
        """Take out every place below `stop`."""
        taken = []
        while self.next_below(stop) is not None:
            count = int(np.searchsorted(self._waiting, stop))
            taken.append(self._waiting[:count])
            self._waiting = self._waiting[count:]
        return np.concatenate(taken) if taken else np.empty(0, np.int64)

    def check_empty(self) -> None:
        if (left := self.next_below(np.iinfo(np.int64).max)) is not None:
            raise ConservationBroken(f"row {left} of the snapshot is wanted, and was not read")


def _matching(
    snapshot: Snapshot, piece: Slice, first: int, queue: _Queue, columns: InputColumns, s3: S3Config | None
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of one object as `delta_schema`; `first` is the place of its row 0."""
    schema = delta_schema(columns)
    start = first + piece.start
    for batch in read_slices(snapshot, [piece], columns, s3=s3):
        places = queue.take(start + batch.num_rows)
        rows = batch.take(pa.array(places - start))
        start += batch.num_rows
        if rows.num_rows:
            texts = rows.columns[: len(schema) - 5]
            rest = [rows.column(name) for name in ("access", "failure", "reason", "line", "object_row")]
            arrays = [array.cast(field.type) for array, field in zip([*texts, *rest], schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if queue.next_below(first + piece.stop) is None:
            return  # the rows after the last wanted one


def _objects(batches: Iterator[pa.RecordBatch], object_index: int, columns: InputColumns) -> Iterator[DeltaObject]:
    """Write batches as Parquet, cut by the bytes of their text alone, so that the same rows give the same objects."""
    schema = delta_schema(columns)
    for part, head in enumerate(batches):
        chunk = _Chunk(schema)
        chunk.add(head)
        while chunk.text_bytes < CHUNK_BYTES and (batch := next(batches, None)) is not None:
            chunk.add(batch)
        yield chunk.close(object_index, part)


class _Chunk:
    """A Parquet file that is being written in memory, in row groups of even size however few rows a batch gave."""

    def __init__(self, schema: pa.Schema) -> None:
        self.text_bytes = 0
        self._rows = 0
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", write_page_checksum=True)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._waiting_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        size_bytes = sum(
            pc.sum(pc.binary_length(column)).as_py() or 0
            for column, field in zip(batch.columns, batch.schema, strict=True)
            if pa.types.is_string(field.type) and not field.name.startswith("_")
        )
        self.text_bytes += size_bytes
        self._waiting.append(batch)
        self._waiting_bytes += size_bytes
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._flush()

    def close(self, object_index: int, part: int) -> DeltaObject:
        if self._waiting:
            self._flush()
        self._writer.close()
        return DeltaObject(
            data=self._sink.getvalue(),
            object_index=object_index,
            part=part,
            rows=self._rows,
            text_bytes=self.text_bytes,
        )

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._writer.write_table(table, row_group_size=GROUP_ROWS)
        self._rows += table.num_rows
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0
