"""Which columns a source has, from its first file: for choosing among them before a snapshot is taken."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import BinaryIO, cast

import pyarrow as pa

from batch_assets.domain.errors import InputError
from resources.result_store.config import S3Config
from resources.snapshots.formats import Format, format_of, is_compressed
from resources.snapshots.lines import Lines
from resources.snapshots.parquet import open_parquet
from resources.snapshots.place import SourceFile, list_files, open_bytes

LINES_READ = 100  # of JSON lines, where a column may be absent from the first ones


def column_names(uri: str, s3: S3Config | None) -> tuple[str, ...]:
    """Return the columns of the first usable file; empty if there is no usable file (the snapshot will say so).

    For JSON lines these are the keys of the first lines that can be read.

    Raises:
        InputError: there is nothing at `uri`, or its first file cannot be read.
    """
    for file in list_files(uri, s3):
        if format_of(file.key) is not None:
            return keys_of(file, s3)
    return ()


def keys_of(file: SourceFile, s3: S3Config | None) -> tuple[str, ...]:
    """Return the columns of one file of a known format; for JSON lines the keys of its first lines.

    Raises:
        InputError: it cannot be read.
    """
    kind = format_of(file.key)
    if kind is None:
        return ()
    try:
        return _names(file, kind, s3)
    except (OSError, EOFError, zlib.error, ValueError, csv.Error, pa.ArrowException) as error:
        raise InputError(f"{file.key}: cannot be read as {kind}: {error}") from None


def _names(file: SourceFile, kind: Format, s3: S3Config | None) -> tuple[str, ...]:
    if kind is Format.PARQUET:
        with open_parquet(file.uri, s3) as opened:
            return tuple(opened.schema_arrow.names)
    with ExitStack() as stack:
        stream: BinaryIO = stack.enter_context(open_bytes(file.uri, s3))
        if is_compressed(file.key):
            stream = stack.enter_context(cast("BinaryIO", gzip.GzipFile(fileobj=stream)))
        lines = [line for _, line in islice(Lines(stream), LINES_READ) if line is not None]
    if kind is Format.CSV:
        return tuple(next(csv.reader(line.decode(errors="replace") for line in lines), []))
    return tuple(dict.fromkeys(_keys(lines)))


def _keys(lines: list[bytes]) -> Iterator[str]:
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue  # an unreadable line is a record's own fault, not the source's
        if isinstance(value, dict):
            yield from value
