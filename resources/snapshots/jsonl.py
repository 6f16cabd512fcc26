"""JSON lines, strictly: every line that is not blank becomes exactly one row, and nothing is guessed.

The standard library's decoder is used with its three leniencies taken away (NaN, repeated keys, infinite numbers):
unlike faster ones it keeps integers exact, can be asked about repeated keys, and lets a lone surrogate through, so
that only the field that holds it is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from batch_assets.domain.attempt import InvalidColumn, InvalidId, InvalidText, RecordFailure, Unreadable
from batch_assets.domain.spec import InputColumns
from resources.snapshots.lines import Lines
from resources.snapshots.records import LONE_SURROGATE, Record, refuse

_JSON_SPACE = b" \t\r\n"
DEPTH_MAX = 200  # far below the interpreter's own bound, which depends on who calls
_KINDS = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


def read_records(lines: Lines, columns: InputColumns, count_blank: Callable[[], object]) -> Iterator[Record]:
    """Yield one row for every line that is not blank; never raises for what a line holds."""
    for number, line in lines:
        if line is None:
            yield refuse(number, Unreadable, "longer than 64 MiB", len(columns.carry))
        elif line.isspace() or not line:
            count_blank()
        else:
            yield parse_line(number, line, columns)


def parse_line(number: int, line: bytes, columns: InputColumns) -> Record:
    """Return one line as a row, with the failure if it has one."""
    try:
        text = line.strip(_JSON_SPACE).decode()
        if text.count("[") + text.count("{") > DEPTH_MAX and _depth(text) > DEPTH_MAX:
            return refuse(number, Unreadable, f"nested deeper than {DEPTH_MAX}", len(columns.carry))
        value, end = _DECODER.raw_decode(text)
    except UnicodeDecodeError as error:
        return refuse(number, Unreadable, f"not UTF-8 at byte {error.start + 1}", len(columns.carry))
    except json.JSONDecodeError as error:
        return refuse(number, Unreadable, f"not JSON: {error.msg} at character {error.pos + 1}", len(columns.carry))
    except ValueError as error:
        return refuse(number, Unreadable, f"not usable JSON: {error}", len(columns.carry))
    if end != len(text) or type(value) is not dict:
        many = f"more than one JSON value, from character {end + 1}"
        return refuse(
            number, Unreadable, many if end != len(text) else f"{_kind(value)}, not an object", len(columns.carry)
        )
    return _record(number, value, columns, may_hold_surrogates="\\u" in text)


def _record(number: int, value: dict[str, Any], columns: InputColumns, *, may_hold_surrogates: bool) -> Record:
    record_id, text = value.get(columns.id), value.get(columns.text)
    if type(record_id) is int and columns.id_type == "integer":
        record_id = str(record_id)
    carry = tuple([v if type(v := value.get(name)) is str else _carried(v) for name in columns.carry])
    access = value.get(columns.access) if columns.access else None
    if type(access) is str:
        access = [access]
    record = Record(number, record_id, text, carry, access)
    simple = (record_id is None or type(record_id) is str) and (text is None or type(text) is str) and access is None
    if simple and not may_hold_surrogates:
        return record
    fault = _fault(record, columns)
    if fault is None:
        return record
    failure, reason = fault
    kept = record_id if type(record_id) is str and not LONE_SURROGATE.search(record_id) else None
    return refuse(number, failure, reason, len(columns.carry), record_id=kept)


def _fault(record: Record, columns: InputColumns) -> tuple[type[RecordFailure], str] | None:
    """Find the first field that cannot be stored: the id, the text, then the columns that go with them."""
    fields: list[tuple[type[RecordFailure], str, Any, str]] = [
        (InvalidId, columns.id, record.record_id, _integer_hint(record.record_id)),
        (InvalidText, columns.text, record.text, ""),
        *((InvalidColumn, name, value, "") for name, value in zip(columns.carry, record.carry, strict=True)),
    ]
    for failure, name, value, advice in fields:
        if value is not None and type(value) is not str:
            return failure, f"column {name} is {_kind(value)}, not text{advice}"
        if value is not None and LONE_SURROGATE.search(value):
            return failure, f"column {name} holds a lone surrogate, which UTF-8 cannot store"
    if record.access is not None and not _are_labels(record.access):
        return InvalidColumn, f"column {columns.access} is not a list of labels that are text"
    return None


def _integer_hint(value: object) -> str:
    return "; input.columns.id_type: integer takes its decimal text" if type(value) is int else ""


def _are_labels(access: object) -> bool:
    return isinstance(access, list) and all(
        isinstance(label, str) and not LONE_SURROGATE.search(label) for label in access
    )


def _carried(value: Any) -> str | None:
    """Return a carried value that is not text as text: compact JSON."""
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS.get(type(value), "text")


def _depth(text: str) -> int:
    """Return how deep brackets nest, those inside strings left out; of text that is not JSON, some number."""
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = not escaped and character == "\\"
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is given twice in one object: nobody can say which is meant")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _integer(text: str) -> int:
    if len(text) > 4000:  # noqa: PLR2004  # the interpreter's own limit is 4,300 digits, and can be configured
        raise ValueError("a number is too large")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_int=_integer, parse_constant=_refuse_constant
)
