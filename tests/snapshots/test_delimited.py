"""CSV: every record after the header is exactly one row, and nothing is repaired by guessing."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.errors import InputError
from batch_assets.domain.spec import InputColumns
from resources.snapshots.delimited import read_records
from resources.snapshots.lines import Lines
from resources.snapshots.records import Record

HEADER = b"record_id,text,lang\n"
COLUMNS = InputColumns(carry=("lang",))


def read(data: bytes, columns: InputColumns = COLUMNS) -> list[Record]:
    return list(read_records(Lines(io.BytesIO(data)), columns, lambda: None, "t.csv"))


def test_leading_zeros_stay() -> None:
    """A reader that infers types makes 007 the number 7."""
    assert [row.record_id for row in read(HEADER + b"007,x,en\n7,y,en\n")] == ["007", "7"]


def test_quoted_newlines_commas_and_quotes_are_text() -> None:
    """A record may span lines; the next record's line number counts them."""
    rows = read(HEADER + b'1,"a\nb, ""c""",en\r\n2,x,en')
    assert [(row.line, row.text) for row in rows] == [(2, 'a\nb, "c"'), (4, "x")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"1,x", "2 fields, the header has 3"),
        (b"1,x,en,more", "4 fields, the header has 3"),
        (b'1,"x\ny"', "2 fields, the header has 3 (to line 4)"),
        (b'1,"x"y,en', "not CSV"),
        (b"1,caf\xe9,en", "not UTF-8"),
        (b"1,\xed\xa0\xbd,en", "not UTF-8"),
        (b"1,x\ry,en", "not CSV"),
    ],
)
def test_a_record_that_cannot_be_read_is_one_row_and_its_neighbours_are_whole(line: bytes, why: str) -> None:
    """Ragged rows shift every later column: none is filled up or cut."""
    first, *others, last = read(HEADER + b"0,before,en\n" + line + b"\n9,after,en\n")
    assert (first.record_id, last.record_id, last.text) == ("0", "9", "after")
    assert [row.failure for row in others] == ["unreadable"]
    assert why in (others[0].reason or "")
    assert (others[0].reason or "").startswith("line 3: ")


def test_a_quote_that_is_never_closed_is_refused_by_name() -> None:
    """It would turn every record after it into one dead letter: thousands gone, one counted."""
    with pytest.raises(InputError, match=r"t\.csv: a quote in the record of line 3 is not closed"):
        read(HEADER + b'1,x,en\n2,"open,en\n3,y,en\n4,z,en\n')


def test_a_quote_that_is_open_on_the_last_line_is_one_unreadable_record() -> None:
    """Nothing comes after it that it could hide."""
    assert [row.failure for row in read(HEADER + b'1,x,en\n2,"open,en')] == [None, "unreadable"]


def test_byte_order_mark_and_blank_lines() -> None:
    """Spreadsheets write the mark; blank lines are no records."""
    rows = read(b"\xef\xbb\xbf" + HEADER + b"\n1,x,en\n\r\n2,y,en\n\n")
    assert [(row.line, row.record_id) for row in rows] == [(3, "1"), (5, "2")]


def test_an_empty_field_of_labels_is_no_label() -> None:
    """CSV has no null; a label of no characters would match nobody's rights."""
    columns = InputColumns(access="lang")
    assert [row.access for row in read(HEADER + b"1,x,team\n2,y,\n", columns)] == [["team"], None]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"", "has no column 'record_id'; it has '1', 'x', 'en'"),
        (b"id,text,lang\n", "has no column 'record_id'"),
        (b"Record_ID ,text,lang\n", r"did you mean 'Record_ID '\?"),
        (b"record_id;text;lang\n", "it has 'record_id;text;lang'"),
        (b"record_id,text,lang,text\n", "has 2 columns named 'text'"),
        ("record_id,text,lang\n".encode("utf-16"), "has no column 'record_id'"),
        (b'"record_id,text\n', "the header is not CSV|has no column"),
    ],
)
def test_a_header_without_the_columns_is_refused_by_name(header: bytes, why: str) -> None:
    """The message says what is there and what comes close."""
    with pytest.raises(InputError, match=rf"t\.csv: .*({why})"):
        read(header + b"1,x,en\n")


FIELDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda text: "\r" not in text)


@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=8))
def test_what_a_csv_writer_writes_comes_back(records: list[tuple[str, str, str]]) -> None:
    """Whatever characters a text has, one record is one row with the same text."""
    sink = io.StringIO(newline="")
    csv.writer(sink, quoting=csv.QUOTE_ALL).writerows([("record_id", "text", "lang"), *records])
    rows = read(sink.getvalue().encode())
    assert [(row.record_id, row.text, *row.carry) for row in rows] == records


@given(st.binary(max_size=80))
def test_any_bytes_are_rows_or_one_refusal(data: bytes) -> None:
    """Nothing but `InputError` is ever raised, and rows can be stored."""
    try:
        rows = read(HEADER + data)
    except InputError:
        return
    for row in rows:
        assert all(value is None or value.encode() is not None for value in (row.record_id, row.text, *row.carry))
