"""JSON lines: every line that is not blank is exactly one row, and what cannot be used says why."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batch_assets.domain.attempt import FAILURE_NAMES
from batch_assets.domain.spec import InputColumns
from resources.snapshots.jsonl import parse_line, read_records
from resources.snapshots.lines import Lines
from resources.snapshots.records import Record

COLUMNS = InputColumns(carry=("lang", "updated_at"), access="acl")
INTEGER_IDS = InputColumns(id_type="integer")


def read(data: bytes, columns: InputColumns = COLUMNS, **limits: int) -> tuple[list[Record], int]:
    """Return a source's rows and its number of blank lines."""
    blank: list[None] = []
    rows = list(read_records(Lines(io.BytesIO(data), **limits), columns, lambda: blank.append(None)))
    return rows, len(blank)


def parse(line: str | bytes, columns: InputColumns = COLUMNS) -> Record:
    return parse_line(1, line.encode() if isinstance(line, str) else line, columns)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"record_id": "1", "text": "cut o', "Unterminated string"),
        ('{"record_id": "1", "text": "x",}', "not JSON"),
        ("{'record_id': '1'}", "not JSON"),
        ('{"record_id": "1"} {"record_id": "2"}', "more than one JSON value, from character 19"),
        ('["1", "x"]', "a list, not an object"),
        ('"1"', "text, not an object"),
        ("null", "null, not an object"),
        ("17", "a number, not an object"),
        ('{"text": "raw \x00 nul"}', "control character"),
        ('{"record_id": "1", "n": NaN}', "NaN is not JSON"),
        ('{"record_id": "1", "n": -Infinity}', "-Infinity is not JSON"),
        ('{"record_id": "1", "n": 1e999}', "too large"),
        ('{"record_id": "1", "n": ' + "9" * 5_000 + "}", "too large"),
        ('{"record_id": "1", "record_id": "2"}', "twice"),
        ('{"record_id": "1", "deep": {"a": 1, "a": 2}}', "twice"),
        ("[" * 100_000, "nested deeper"),
        ('{"a":' * 300 + "1" + "}" * 300, "nested deeper"),
        (b'{"text": "caf\xe9"}', "not UTF-8 at byte 14"),
        (b'{"text": "\xed\xa0\xbd\xed\xb8\x80"}', "not UTF-8"),
        (b'{"text": "over\xc0\xaflong"}', "not UTF-8"),
        ("\ufeff{}", "not JSON"),
    ],
)
def test_a_line_that_is_not_one_strict_object_is_unreadable(line: str | bytes, why: str) -> None:
    """Readers disagree about each of these (last key wins, NaN, Latin-1); none is guessed, each says what it is."""
    record = parse(line)
    assert (record.failure, record.record_id, record.text) == ("unreadable", None, None)
    assert why in (record.reason or "")
    assert (record.reason or "").startswith("line 1: ")


@pytest.mark.parametrize(
    ("value", "why"),
    [("12345", "a number"), ("1.0", "a number"), ("true", "a boolean"), ('["1"]', "a list"), ('{"a":1}', "an object")],
)
def test_an_id_that_is_not_text_is_invalid(value: str, why: str) -> None:
    """12345 and "12345" may be two records: nothing is coerced unless the job declares it."""
    record = parse(f'{{"record_id": {value}, "text": "x"}}')
    assert record.failure == "invalid_id"
    assert f"column record_id is {why}" in (record.reason or "")


@pytest.mark.parametrize("number", [0, -7, 12345, 2**53 + 1, 2**64 + 1, 10**40 + 1])
def test_declared_integer_ids_are_exact(number: int) -> None:
    """Readers that use doubles turn 9007199254740993 into its neighbour, which is another customer's ticket."""
    assert parse(f'{{"record_id": {number}, "text": "x"}}', INTEGER_IDS).record_id == str(number)


@pytest.mark.parametrize("value", ["true", "1.0", "[1]", '{"a":1}'])
def test_declared_integer_ids_take_nothing_else(value: str) -> None:
    """A boolean is an int for Python, and 1.0 may be 1 or not."""
    assert parse(f'{{"record_id": {value}, "text": "x"}}', INTEGER_IDS).failure == "invalid_id"


@pytest.mark.parametrize("value", ["5", "true", '["a"]', '{"role": "user"}'])
def test_text_that_is_not_text_is_invalid_and_keeps_its_id(value: str) -> None:
    """The dead letter of a list of turns must still name its record."""
    record = parse(f'{{"record_id": "t-1", "text": {value}}}')
    assert (record.failure, record.record_id) == ("invalid_text", "t-1")


@pytest.mark.parametrize(
    ("line", "failure", "record_id"),
    [
        (r'{"record_id": "1", "text": "broken \ud83d"}', "invalid_text", "1"),
        (r'{"record_id": "1", "text": "\ude00\ud83d"}', "invalid_text", "1"),
        (r'{"record_id": "\ud83d", "text": "x"}', "invalid_id", None),
        (r'{"record_id": "1", "text": "x", "lang": "\ud83d"}', "invalid_column", "1"),
        (r'{"record_id": "1", "text": "x", "acl": ["\ud83d"]}', "invalid_column", "1"),
        (r'{"record_id": "1", "text": "x", "acl": "\ud83d"}', "invalid_column", "1"),
        (r'{"record_id": "1", "text": "x", "lang": ["\ud83d"]}', "invalid_column", "1"),
    ],
)
def test_a_lone_surrogate_cannot_be_stored(line: str, failure: str, record_id: str | None) -> None:
    """It passes every JSON parser and dies when it is encoded: in the worker, if it is not caught here."""
    record = parse(line)
    assert (record.failure, record.record_id) == (failure, record_id)


def test_a_lone_surrogate_in_a_column_that_the_job_does_not_read_is_nobodys_business() -> None:
    """The record can be answered."""
    assert parse(r'{"record_id": "1", "text": "x", "other": "\ud83d", "\ud83d": 1}').failure is None


def test_a_proper_pair_of_surrogates_is_one_character() -> None:
    """JSON writes an emoji as two escapes."""
    assert parse(r'{"record_id": "1", "text": "thanks \ud83d\ude00"}').text == "thanks \U0001f600"


def test_nul_and_control_characters_are_text() -> None:
    """Escaped, they are good JSON, and UTF-8 stores them."""
    record = parse(r'{"record_id": "id\u0000tail", "text": "a\u0000b\u0007\u2028c"}')
    assert (record.record_id, record.text, record.failure) == ("id\0tail", "a\0b\a\u2028c", None)


def test_line_separators_inside_a_string_do_not_split_the_line() -> None:
    """`str.splitlines` sees six lines here."""
    rows, _ = read('{"record_id": "1", "text": "a\u2028b\u2029c\x85d"}\n'.encode())
    assert [row.text for row in rows] == ["a\u2028b\u2029c\x85d"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("null", None),
        ('"en"', "en"),
        ("true", "true"),
        ("1772442000000", "1772442000000"),
        ("9007199254740993", "9007199254740993"),
        ("0.5", "0.5"),
        ('{"a": [1, "\u00e9"]}', '{"a":[1,"\u00e9"]}'),
    ],
)
def test_carried_values_become_text(value: str, text: str | None) -> None:
    """Whatever a date looks like today, it is no reason to refuse a ticket."""
    assert parse(f'{{"record_id": "1", "text": "x", "lang": {value}}}').carry == (text, None)


@pytest.mark.parametrize(
    ("value", "labels"), [('["a", "b"]', ["a", "b"]), ("[]", []), ('"team"', ["team"]), ("null", None)]
)
def test_access_labels(value: str, labels: list[str] | None) -> None:
    """One label may be written without its list; none at all is not the same as an empty list."""
    assert parse(f'{{"record_id": "1", "text": "x", "acl": {value}}}').access == labels


@pytest.mark.parametrize("value", ["7", '["a", null]', '["a", 1]', '{"a": 1}'])
def test_access_labels_that_cannot_be_inherited_refuse_the_record(value: str) -> None:
    """A label that were dropped would show the answer to people who may not see the record (I9)."""
    assert parse(f'{{"record_id": "1", "text": "x", "acl": {value}}}').failure == "invalid_column"


def test_byte_order_mark_crlf_blank_lines_and_no_last_newline() -> None:
    """What Windows tools write; blank lines are counted, and are no records."""
    rows, blank = read(b'\xef\xbb\xbf{"record_id": "1"}\r\n\r\n  \t\n{"record_id": "4"}')
    assert [(row.line, row.record_id) for row in rows] == [(1, "1"), (4, "4")]
    assert blank == 2


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_over_long_line_is_one_unreadable_row(end: bytes) -> None:
    """A file without line ends must not fill the memory."""
    rows, _ = read(b'{"record_id":"1"}\n' + b"x" * 5_000 + end, line_bytes_max=1_000)
    assert [row.failure for row in rows] == [None, "unreadable"]
    rows, _ = read(b"x" * 5_000 + b'\n{"record_id":"2"}' + end, line_bytes_max=1_000)
    assert [(row.line, row.failure) for row in rows] == [(1, "unreadable"), (2, None)]


def test_a_line_of_just_the_longest_length_is_read() -> None:
    """The bound itself is inside."""
    line = b'{"record_id":"1"}'
    rows, _ = read(line, line_bytes_max=len(line))
    assert [row.record_id for row in rows] == ["1"]


def test_how_deep_is_too_deep_does_not_depend_on_the_caller() -> None:
    """Python's own bound counts the caller's frames: the same snapshot taken elsewhere would refuse other records."""

    def deep(frames: int) -> Record:
        return deep(frames - 1) if frames else parse('{"a":' * 200 + "1" + "}" * 200)

    assert deep(0).failure is deep(400).failure is None


ODD_BYTES = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([b"{", b"}", b"[", b'"', b"\\", b"\n", b"\r", b",", b":", b"1", b"\xed"])).map(b"".join),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["record_id", "text", "acl"]), inner),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)


@given(st.lists(ODD_BYTES, max_size=6).map(b"\n".join))
@example(b"\xef\xbb\xbf")
@example(b"\xef\xbb\xbf\n\xef\xbb\xbf\n")
@example(b"\r\n\r")
def test_any_bytes_give_one_row_for_every_line_that_is_not_blank(data: bytes) -> None:
    """Nothing raises, nothing vanishes, and every row can be stored."""
    rows, blank = read(data)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert [row.line for row in rows] == [number for number, line in enumerate(lines, 1) if line.strip()]
    assert len(rows) + blank == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    for row in rows:
        assert row.failure is None or row.failure in FAILURE_NAMES
        assert (row.failure is None) == (row.reason is None)
        storable: Any = [row.record_id, row.text, *row.carry, *(row.access or [])]
        assert all(value is None or value.encode() is not None for value in storable)
