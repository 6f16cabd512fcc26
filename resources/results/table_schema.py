"""The tables that a job's results and dead letters have: Arrow schemas made from the spec.

A result row is the answer's properties (in the output schema's order), the carried columns, the access labels, and
provenance (I10). Types: string, boolean, integer -> int64, number -> float64, array of string -> list<string>;
anything nested deeper is kept as JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa

from batch_assets.domain.errors import InvalidSpec
from batch_assets.domain.spec import JobSpec

UNTRUSTED = {b"content": b"untrusted: written by a model from a record's text"}

PROVENANCE: tuple[tuple[str, pa.DataType], ...] = (
    ("job_version", pa.string()),
    ("recipe_digest", pa.string()),
    ("model_digest", pa.string()),
    ("shard", pa.int32()),
    ("row", pa.int32()),  # place in the shard, 0-based: with `shard` it names the source row
    ("epoch", pa.int32()),
    ("worker", pa.string()),
    ("attempts", pa.int32()),
    ("infrastructure_losses", pa.int32()),
    ("finish_reason", pa.string()),
    ("prompt_tokens", pa.int32()),
    ("cached_tokens", pa.int32()),
    ("output_tokens", pa.int32()),
    ("output_sha256", pa.string()),
    ("answered_at", pa.timestamp("us", tz="UTC")),
)

DEAD_LETTER_SCHEMA = pa.schema(
    [
        ("record_id", pa.string()),  # null where the record has none that can be stored
        ("object_key", pa.string()),
        ("object_row", pa.int64()),  # 0-based row (or line) of the source object
        ("failure", pa.string()),
        ("reason", pa.string()),
        ("output", pa.large_binary()),  # what the model said, as bytes: it may be anything
        *((name, kind) for name, kind in PROVENANCE if name not in {"output_sha256", "answered_at", "cached_tokens"}),
        ("failed_at", pa.timestamp("us", tz="UTC")),
    ]
)

_SCALARS = {"string": pa.string(), "boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}


def value_kind(schema: Mapping[str, Any]) -> str | None:
    """Return the one JSON type of a property beside null, or None if it has several or says none."""
    kind = schema.get("type")
    if isinstance(kind, list):
        others = [name for name in kind if name != "null"]
        return others[0] if len(others) == 1 else None
    if kind is None and "enum" in schema:
        texts = [value for value in schema["enum"] if value is not None]
        return "string" if texts and all(isinstance(value, str) for value in texts) else None
    return kind


def allows_null(schema: Mapping[str, Any]) -> bool:
    """Say whether a property may be null where it is present."""
    kind = schema.get("type")
    typed = kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)
    return typed and ("enum" not in schema or None in schema["enum"])


def output_type(schema: Mapping[str, Any]) -> pa.DataType:
    """Return the Arrow type of one property of the output schema."""
    kind = value_kind(schema)
    if kind == "array" and schema.get("items", {}).get("type") == "string":
        return pa.list_(pa.string())
    return _SCALARS.get(kind, pa.string()) if kind is not None else pa.string()


def is_json_text(schema: Mapping[str, Any]) -> bool:
    """Say whether a property is nested deeper than a column can show, and so is kept as JSON text."""
    kind = value_kind(schema)
    flat = kind in _SCALARS or (kind == "array" and schema.get("items", {}).get("type") == "string")
    return not flat


def output_properties(spec: JobSpec) -> dict[str, Mapping[str, Any]]:
    """Return the output schema's properties, in order.

    Raises:
        InvalidSpec: the schema is not an object with properties.
    """
    schema = spec.schema
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict) or not properties:
        raise InvalidSpec("output_schema: must be an object with properties, one for each column of the results")
    return dict(properties)


def result_schema(spec: JobSpec) -> pa.Schema:
    """Return the Arrow schema of a job's results.

    Raises:
        InvalidSpec: an output property or carried column has the name of another column.
    """
    derived = [
        pa.field(name, output_type(schema), metadata=UNTRUSTED) for name, schema in output_properties(spec).items()
    ]
    carried = [pa.field(name, pa.string()) for name in spec.input.columns.carry]
    access = [pa.field("access", pa.list_(pa.string()))] if spec.input.columns.access else []
    fields = [
        pa.field("record_id", pa.string(), nullable=False),
        *derived,
        *carried,
        *access,
        *(pa.field(name, kind, nullable=False) for name, kind in PROVENANCE),
    ]
    names = [field.name for field in fields]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidSpec(
            f"output_schema / input.columns.carry: two columns of the results would be named {', '.join(repeated)}"
        )
    return pa.schema(fields)


class OutputColumns:
    """Turns answers into column values of `result_schema`, with the spec's schema read once."""

    def __init__(self, spec: JobSpec) -> None:
        self._json_text = {name: is_json_text(schema) for name, schema in output_properties(spec).items()}

    def of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return a valid answer's properties; an absent optional one is None."""
        return {
            name: (
                orjson.dumps(answer[name], option=orjson.OPT_SORT_KEYS).decode()
                if json_text and name in answer
                else answer.get(name)
            )
            for name, json_text in self._json_text.items()
        }
