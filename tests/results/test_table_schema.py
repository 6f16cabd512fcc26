"""Columns from an output schema: what is flat is a column, what is deeper is JSON text, and names are unique."""

from __future__ import annotations

import pyarrow as pa
import pytest

from batch_assets.domain.errors import InvalidSpec
from resources.results.table_schema import OutputColumns, allows_null, is_json_text, output_type, result_schema
from tests.results.world import make_spec


@pytest.mark.parametrize(
    ("schema", "kind", "text", "null"),
    [
        ({"type": "string"}, pa.string(), False, False),
        ({"type": ["string", "null"]}, pa.string(), False, True),
        ({"type": ["null", "integer"]}, pa.int64(), False, True),
        ({"type": "number"}, pa.float64(), False, False),
        ({"type": "boolean"}, pa.bool_(), False, False),
        ({"type": "array", "items": {"type": "string"}}, pa.list_(pa.string()), False, False),
        ({"type": "array", "items": {"type": "integer"}}, pa.string(), True, False),
        ({"type": "object"}, pa.string(), True, False),
        ({"type": ["string", "integer"]}, pa.string(), True, False),
        ({"enum": ["a", "b"]}, pa.string(), False, False),
        ({"enum": ["a", None]}, pa.string(), False, True),
        ({"enum": [1, 2]}, pa.string(), True, False),
        ({"type": ["string", "null"], "enum": ["a"]}, pa.string(), False, False),
        ({}, pa.string(), True, True),
    ],
)
def test_each_property_has_a_column(schema, kind, text, null):
    """Every form of type that JSON Schema allows, lists of types included, has a column that can hold its values."""
    assert output_type(schema) == kind
    assert is_json_text(schema) == text
    assert allows_null(schema) == null


def test_answers_fit_their_columns():
    """An absent optional property is null; a nested one is JSON text; the row fits the Arrow schema."""
    spec = make_spec(
        {
            "type": "object",
            "properties": {
                "label": {"type": ["string", "null"]},
                "parties": {"type": "array", "items": {"type": "object"}},
                "note": {"type": "string"},
            },
        }
    )
    row = OutputColumns(spec).of({"label": None, "parties": [{"b": 1, "a": 2}]})
    assert row == {"label": None, "parties": '[{"a":2,"b":1}]', "note": None}
    schema = pa.schema([result_schema(spec).field(name) for name in row])
    assert pa.Table.from_pylist([row], schema=schema).num_rows == 1


@pytest.mark.parametrize("name", ["record_id", "shard", "lang"])
def test_a_name_that_is_taken_is_refused(name):
    """An output property named like provenance or a carried column would hide it."""
    with pytest.raises(InvalidSpec, match=name):
        result_schema(make_spec({"type": "object", "properties": {name: {"type": "string"}}}))


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_an_answer_without_columns_is_refused(schema):
    """Results are a table, so an answer is an object with properties."""
    with pytest.raises(InvalidSpec, match="output_schema"):
        result_schema(make_spec(schema))
