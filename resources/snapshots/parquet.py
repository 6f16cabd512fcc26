"""Parquet sources, read in place: what the footer says, checked before anything trusts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.errors import InputError
from batch_assets.domain.spec import InputColumns
from resources.result_store.config import S3Config
from resources.snapshots.columns import check_names
from resources.snapshots.place import SourceFile, is_s3, local_path, open_bytes
from resources.snapshots.types import is_access, is_carried, is_id, is_text, same_kind

_FOOTER_BYTES = 8  # the footer's length and the closing magic number


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """A source's rows and the types of the columns that the job reads."""

    rows: int
    types: Mapping[str, pa.DataType]


def open_parquet(uri: str, s3: S3Config | None) -> pq.ParquetFile:
    """Open a Parquet file so that pages are read as they are needed and checked where they carry a checksum.

    Raises:
        OSError, pa.ArrowException: it is not there or not Parquet.
    """
    source = open_bytes(uri, s3) if is_s3(uri) else str(local_path(uri))
    return pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)


def inspect(file: SourceFile, columns: InputColumns, s3: S3Config | None) -> Inspected:
    """Read a file's footer and check it.

    Raises:
        InputError: it is corrupt or cut off, or lacks a column, or a column has a type that cannot be used.
    """
    try:
        with open_parquet(file.uri, s3) as opened:
            _check_chunks(opened.metadata, file)
            schema = opened.schema_arrow
            rows = opened.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file.key}: not a readable Parquet file: {error}") from None
    check_names(file.key, schema.names, columns)
    types = {name: schema.field(name).type for name in columns.all}
    _check_types(file.key, types, columns)
    return Inspected(rows=rows, types=types)


def check_same(first_key: str, first: Inspected, key: str, other: Inspected) -> None:
    """Check that two files of a source have the same types in the columns that the job reads.

    Raises:
        InputError: they differ; the message names both files and the columns.
    """
    differing = [
        f"{name} ({kind} and {other.types[name]})"
        for name, kind in first.types.items()
        if same_kind(kind) != same_kind(other.types[name])
    ]
    if differing:
        raise InputError(f"{first_key} and {key} have different types: {', '.join(differing)}")


def notes(inspected: Inspected, columns: InputColumns) -> list[str]:
    """Return what a user should know about how the columns are read."""
    found = []
    if not is_text(inspected.types[columns.id]):
        found.append(f"column {columns.id} is {inspected.types[columns.id]}: record_id is its decimal text")
    cast = [name for name in columns.carry if not is_text(inspected.types[name])]
    found += [f"column {name} is {inspected.types[name]}: it is carried as text" for name in cast]
    if columns.access and is_text(inspected.types[columns.access]):
        found.append(f"column {columns.access} is text: each value is one access label")
    return found


def _check_chunks(footer: pq.FileMetaData, file: SourceFile) -> None:
    """Check that every column chunk lies within the file: a file put together from a cut one can have a good footer."""
    rows = 0
    for group_index in range(footer.num_row_groups):
        group = footer.row_group(group_index)
        rows += group.num_rows
        for column_index in range(group.num_columns):
            chunk = group.column(column_index)
            start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            stop = start + chunk.total_compressed_size
            if chunk.num_values and not 0 < start <= stop <= file.size_bytes - _FOOTER_BYTES:
                raise InputError(
                    f"{file.key}: cut off or corrupt: column {chunk.path_in_schema} of row group {group_index} "
                    f"would lie at bytes {start} to {stop} of {file.size_bytes}"
                )
    if rows != footer.num_rows:
        raise InputError(f"{file.key}: corrupt: the footer says {footer.num_rows} rows, its row groups {rows}")


def _check_types(key: str, types: Mapping[str, pa.DataType], columns: InputColumns) -> None:
    wanted = [
        (columns.id, is_id, "text or integers, to be the id"),
        (columns.text, is_text, "text"),
        *((name, is_carried, "anything but bytes and durations, to be carried") for name in columns.carry),
        *([(columns.access, is_access, "text or a list of text, to be access labels")] if columns.access else []),
    ]
    for name, accepts, what in wanted:
        if not accepts(types[name]):
            raise InputError(f"{key}: column {name!r} is {types[name]}; it must be {what}")
