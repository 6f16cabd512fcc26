"""Which column types a job may read, and how each becomes text: one canonical form, so that equal values look equal.

| column | accepted | as text |
|---|---|---|
| id | text, integers | decimal digits |
| text | text | as it is |
| carried | anything but bytes and durations | integers, decimals: digits; booleans: true, false; floats: shortest digits; timestamps: ISO 8601, in UTC if they have a zone; lists and structs: compact JSON |
| access | text (one label), list of text | as it is |

"Text" is string, large_string, string_view, JSON, or a dictionary of these.
"""  # noqa: E501  # a table's row is a line

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()
LABELS = pa.large_list(pa.large_string())


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return what a dictionary or extension type stands for."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Say whether a column of this type holds text."""
    plain = plain_type(kind)
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_string_view(plain))


def is_id(kind: pa.DataType) -> bool:
    """Say whether a column of this type can be the id."""
    return is_text(kind) or bool(pa.types.is_integer(plain_type(kind)))


def is_access(kind: pa.DataType) -> bool:
    """Say whether a column of this type can hold access labels."""
    plain = plain_type(kind)
    listed = pa.types.is_list(plain) or pa.types.is_large_list(plain)
    return is_text(plain) or (bool(listed) and is_text(plain.value_type))


def is_carried(kind: pa.DataType) -> bool:
    """Say whether a column of this type can be carried as text."""
    plain = plain_type(kind)
    of_bytes = pa.types.is_binary(plain) or pa.types.is_large_binary(plain) or pa.types.is_binary_view(plain)
    of_time = pa.types.is_duration(plain) or pa.types.is_interval(plain)
    return not (of_bytes or of_time or pa.types.is_fixed_size_binary(plain))


def same_kind(kind: pa.DataType) -> str:
    """Return a name that is equal for types that read alike: every kind of text is `text`."""
    return "text" if is_text(kind) else str(plain_type(kind))


def to_text(array: pa.Array) -> pa.Array:
    """Return a column as `TEXT`. Bytes that are not UTF-8 stay as they are: Arrow does not look."""
    array = _plain(array)
    kind = array.type
    if pa.types.is_nested(kind):
        return pa.array([_json(value) for value in array.to_pylist()], TEXT)
    if pa.types.is_timestamp(kind):
        utc = array.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else array
        return pc.replace_substring(utc.cast(TEXT), " ", "T", max_replacements=1)
    return array.cast(TEXT)


def to_labels(array: pa.Array) -> pa.Array:
    """Return a column of access labels as `LABELS`; text becomes one label, null stays null."""
    array = _plain(array)
    if not is_text(array.type):
        return array.cast(LABELS)
    present = array.is_valid()
    offsets = pc.cumulative_sum(present.cast(pa.int64()))
    starts = pa.concat_arrays([pa.array([0], pa.int64()), offsets])
    return pa.LargeListArray.from_arrays(starts, array.drop_null().cast(TEXT), mask=pc.invert(present))


def _plain(array: pa.Array) -> pa.Array:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
