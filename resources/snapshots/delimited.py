"""CSV, strictly: UTF-8, commas, a header; every record after it becomes exactly one row, ragged ones included."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from batch_assets.domain.attempt import Unreadable
from batch_assets.domain.errors import InputError
from batch_assets.domain.spec import InputColumns
from resources.snapshots.columns import check_names
from resources.snapshots.lines import LINE_BYTES_MAX, Lines
from resources.snapshots.records import LONE_SURROGATE, Record, refuse


def read_records(lines: Lines, columns: InputColumns, count_blank: Callable[[], object], key: str) -> Iterator[Record]:
    """Yield one row for every record after the header; a record may span lines if a field is quoted.

    Raises:
        InputError: the header lacks a column, or a quote is never closed (it would swallow the records after it).
    """
    csv.field_size_limit(max(LINE_BYTES_MAX, csv.field_size_limit()))
    reader = csv.reader(_decoded(lines, key), strict=True)
    places = _read_header(reader, columns, key)
    while True:
        first, consumed_bytes = reader.line_num + 1, lines.consumed_bytes
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            open_quote = lines.exhausted and reader.line_num > first
            if open_quote or lines.consumed_bytes - consumed_bytes > LINE_BYTES_MAX:
                raise InputError(
                    f"{key}: a quote in the record of line {first} is not closed; it would swallow the lines after it"
                ) from None
            reason = f"not CSV: {error}{_until(first, reader.line_num)}"
            yield refuse(first, Unreadable, reason, len(columns.carry))
            continue
        if fields:
            yield _record(first, reader.line_num, fields, places, columns)
        else:
            count_blank()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where in a record the columns are that the job reads; `width` is how many fields a record has."""

    width: int
    id: int
    text: int
    carry: tuple[int, ...]
    access: int | None


def _read_header(reader: Iterator[list[str]], columns: InputColumns, key: str) -> _Places:
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise InputError(f"{key}: the header is not CSV: {error}") from None
    check_names(key, header, columns)
    return _Places(
        width=len(header),
        id=header.index(columns.id),
        text=header.index(columns.text),
        carry=tuple(header.index(name) for name in columns.carry),
        access=header.index(columns.access) if columns.access else None,
    )


def _decoded(lines: Lines, key: str) -> Iterator[str]:
    """Decode each line; a byte that is not UTF-8 becomes a lone surrogate, which `_record` refuses."""
    for number, line in lines:
        if line is None:
            raise InputError(f"{key}: line {number} is longer than {LINE_BYTES_MAX >> 20} MiB")
        yield line.decode("utf-8", "surrogateescape")


def _record(first: int, last: int, fields: Sequence[str], places: _Places, columns: InputColumns) -> Record:
    if len(fields) != places.width:
        reason = f"{len(fields)} fields, the header has {places.width}{_until(first, last)}"
        return refuse(first, Unreadable, reason, len(places.carry))
    together = "".join(fields)
    if not together.isascii() and LONE_SURROGATE.search(together):
        return refuse(first, Unreadable, f"not UTF-8{_until(first, last)}", len(columns.carry))
    access = [fields[places.access]] if places.access is not None and fields[places.access] else None
    carry = tuple([fields[place] for place in places.carry])
    return Record(first, fields[places.id], fields[places.text], carry, access)


def _until(first: int, last: int) -> str:
    return f" (to line {last})" if last > first else ""
