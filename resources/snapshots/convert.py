"""CSV and JSON lines become Parquet once, in the result store: one row for every record, the unreadable ones included.

A large source becomes several objects, cut at whole records after about `CHUNK_BYTES`, so that memory stays bounded
and every object is put whole. The manifest is put last: where it stands, the conversion is complete.
"""

from __future__ import annotations

import gzip
import io
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, cast

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.canonical import canonical_json, digest_of, short
from batch_assets.domain.errors import InputError
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import SnapshotObject
from batch_assets.domain.spec import InputColumns
from resources.result_store.config import S3Config
from resources.snapshots import delimited, jsonl
from resources.snapshots.formats import Format, format_of, is_compressed
from resources.snapshots.lines import Lines
from resources.snapshots.place import SourceFile, open_bytes, stat
from resources.snapshots.records import Record

FORM = 2  # raised when the converted form changes: copies of another form are not reused
CHUNK_BYTES = 128 << 20
GROUP_BYTES = 16 << 20
GROUP_ROWS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """The objects of one source file, how many of its lines were blank and so no records, and which columns were.

    `blank_columns` are those of id and text that no record has a value of: null or absent in each of them.
    """

    objects: tuple[SnapshotObject, ...]
    blank_lines: int
    blank_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    data: bytes
    rows: int
    source_bytes: int


def schema_of(columns: InputColumns) -> pa.Schema:
    """Return the converted form's columns; `_line` is the record's first line, 1-based."""
    return pa.schema(
        [
            ("record_id", pa.string()),
            ("text", pa.string()),
            *((carry_name(name), pa.string()) for name in columns.carry),
            ("access", pa.list_(pa.string())),
            ("_failure", pa.string()),
            ("_reason", pa.string()),
            ("_line", pa.int64()),
        ]
    )


def carry_name(name: str) -> str:
    """Return what a carried column is called beside our own: a source may have a `text` that is not the text."""
    return f"carry:{name}"


def convert(
    file: SourceFile, checksum: str, columns: InputColumns, limit: int | None, store: ObjectStore, s3: S3Config | None
) -> Converted:
    """Convert the first `limit` records of a file, unless that was done before.

    Raises:
        InputError: the file cannot be read, has no such columns, or changes meanwhile.
    """
    prefix = _prefix(file, checksum, columns, limit)
    if store.head(f"{prefix}/manifest.json") is None:
        written = _write_all(file, columns, limit, store, prefix, s3)
        present = stat(file.uri, s3)
        if (present.size_bytes, present.etag, present.mtime_ns) != (file.size_bytes, file.etag, file.mtime_ns):
            raise InputError(f"{file.key}: changed while it was read; take the snapshot when nobody writes to it")
        store.put_if_absent(f"{prefix}/manifest.json", canonical_json(written).encode())
    manifest = orjson.loads(store.get(f"{prefix}/manifest.json"))
    objects = tuple(
        SnapshotObject(
            key=f"{file.key}#{index}" if index else file.key,
            size_bytes=chunk["source_bytes"],
            checksum=checksum,
            rows=chunk["rows"],
            data_uri=store.uri(chunk["key"]),
            converted=True,
        )
        for index, chunk in enumerate(manifest["chunks"])
    )
    return Converted(
        objects=objects, blank_lines=manifest["blank_lines"], blank_columns=tuple(manifest["blank_columns"])
    )


def _prefix(file: SourceFile, checksum: str, columns: InputColumns, limit: int | None) -> str:
    """Name a conversion by all that decides its bytes, the writing library's version included."""
    form = {"form": FORM, "writer": pa.__version__, "format": format_of(file.key), "gzip": is_compressed(file.key)}
    digest = digest_of({**form, "checksum": checksum, "limit": limit, "columns": asdict(columns)})
    return f"snapshots/{short(digest, 32)}"


def _write_all(
    file: SourceFile, columns: InputColumns, limit: int | None, store: ObjectStore, prefix: str, s3: S3Config | None
) -> dict[str, Any]:
    """Convert and put every chunk; return the manifest."""
    blank_lines = itertools.count()
    blank_columns = {columns.id, columns.text}
    chunks = []
    try:
        with ExitStack() as opened:
            stream = opened.enter_context(open_bytes(file.uri, s3))
            if is_compressed(file.key):
                stream = opened.enter_context(cast("BinaryIO", gzip.GzipFile(fileobj=stream)))
            lines = Lines(stream)
            records = _watched(_records(file.key, lines, columns, lambda: next(blank_lines)), columns, blank_columns)
            for index, chunk in enumerate(_chunks(itertools.islice(records, limit), lines, columns)):
                key = f"{prefix}/rows-{index:05d}.parquet"
                store.put_if_absent(key, chunk.data)
                chunks.append({"key": key, "rows": chunk.rows, "source_bytes": chunk.source_bytes})
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{file.key}: not readable gzip, or cut off: {error}") from None
    except PermissionError as error:
        raise InputError(f"{file.key}: cannot be read ({error.strerror})") from None
    return {"chunks": chunks, "blank_lines": next(blank_lines), "blank_columns": sorted(blank_columns)}


def _watched(records: Iterator[Record], columns: InputColumns, blank: set[str]) -> Iterator[Record]:
    """Pass records on; take a column out of `blank` when one has a value of it."""
    for record in records:
        if blank:
            blank.difference_update(
                name
                for name, value in ((columns.id, record.record_id), (columns.text, record.text))
                if value is not None
            )
        yield record


def _records(key: str, lines: Lines, columns: InputColumns, count_blank: Callable[[], object]) -> Iterator[Record]:
    if format_of(key) is Format.CSV:
        return delimited.read_records(lines, columns, count_blank, key)
    return jsonl.read_records(lines, columns, count_blank)


def _chunks(records: Iterable[Record], lines: Lines, columns: InputColumns) -> Iterator[_Chunk]:
    """Write records as Parquet, cut by rows and source bytes alone, so that the same source gives the same chunks."""
    schema = schema_of(columns)
    open_chunk = _OpenChunk(schema, start_bytes=0)
    pending: list[Record] = []
    group_start_bytes = 0
    for record in records:
        pending.append(record)
        if len(pending) < GROUP_ROWS and lines.consumed_bytes - group_start_bytes < GROUP_BYTES:
            continue
        open_chunk.write(_table(pending, schema))
        pending, group_start_bytes = [], lines.consumed_bytes
        if lines.consumed_bytes - open_chunk.start_bytes >= CHUNK_BYTES:
            yield open_chunk.close(lines.consumed_bytes)
            open_chunk = _OpenChunk(schema, start_bytes=lines.consumed_bytes)
    if pending:
        open_chunk.write(_table(pending, schema))
    if open_chunk.rows:
        yield open_chunk.close(lines.consumed_bytes)


class _OpenChunk:
    """A Parquet file that is being written in memory."""

    def __init__(self, schema: pa.Schema, *, start_bytes: int) -> None:
        self.start_bytes = start_bytes
        self.rows = 0
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", write_page_checksum=True)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=GROUP_ROWS)
        self.rows += table.num_rows

    def close(self, consumed_bytes: int) -> _Chunk:
        self._writer.close()
        return _Chunk(data=self._sink.getvalue(), rows=self.rows, source_bytes=consumed_bytes - self.start_bytes)


def _table(records: list[Record], schema: pa.Schema) -> pa.Table:
    lines, ids, texts, carried, access, failures, reasons = zip(*records, strict=True)
    values = [ids, texts, *zip(*carried, strict=True), access, failures, reasons, lines]
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
