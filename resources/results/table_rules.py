"""The pandera schema of a job's results: what the output schema says of each answer, and what provenance must say.

The worker validated every answer before it committed it. This looks again at what is stored, by other code: lengths,
bounds, enums and nulls as Polars expressions; any keyword that has none (patterns, formats, nested objects) by the
JSON Schema validator, value by value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
import pandera.polars as pandera
import polars as pl
import pyarrow as pa
from pandera.api.polars.types import PolarsData

from batch_assets.domain.spec import JobSpec
from resources.results.table_schema import allows_null, is_json_text, output_properties, output_type, result_schema

Rule = Callable[[pl.Expr, Any], pl.Expr]

_LENGTHS: dict[str, Rule] = {
    "minLength": lambda column, bound: column.str.len_chars() >= bound,
    "maxLength": lambda column, bound: column.str.len_chars() <= bound,
    "enum": lambda column, values: column.is_in([value for value in values if value is not None]),
}
_BOUNDS: dict[str, Rule] = {
    "minimum": lambda column, bound: column >= bound,
    "maximum": lambda column, bound: column <= bound,
    "exclusiveMinimum": lambda column, bound: column > bound,
    "exclusiveMaximum": lambda column, bound: column < bound,
}
_SIZES: dict[str, Rule] = {
    "minItems": lambda column, bound: column.list.len() >= bound,
    "maxItems": lambda column, bound: column.list.len() <= bound,
}
_RULES: dict[str, Rule] = {**_LENGTHS, **_BOUNDS, **_SIZES}
_SILENT = frozenset({"type", "title", "description", "default", "examples", "$comment"})

_AT_LEAST = {
    "shard": 0,
    "row": 0,
    "epoch": 1,
    "attempts": 1,
    "infrastructure_losses": 0,
    "prompt_tokens": 0,
    "cached_tokens": 0,
    "output_tokens": 0,
}


def table_rules(spec: JobSpec, version: str) -> pandera.DataFrameSchema:
    """Return the pandera schema of a version's results; a column too many or too few is a failure, too.

    Raises:
        InvalidSpec: the output schema has no columns, or two of the same name.
    """
    properties = output_properties(spec)
    required = set(spec.schema.get("required", ()))
    definitions: dict[str, Any] = {name: spec.schema[name] for name in ("$defs", "definitions") if name in spec.schema}
    fixed = {
        "job_version": version,
        "recipe_digest": spec.recipe_digest,
        "model_digest": spec.model.digest,
    }
    columns = {}
    for field in result_schema(spec):
        if field.name in properties:
            columns[field.name] = _answer_column(
                definitions | dict(properties[field.name]), required=field.name in required
            )
        else:
            columns[field.name] = pandera.Column(
                _polars_type(field.type), _provenance_checks(field, fixed), nullable=field.nullable
            )
    return pandera.DataFrameSchema(columns, strict=True)


def _answer_column(schema: Mapping[str, Any], *, required: bool) -> pandera.Column:
    if is_json_text(schema):
        checks = [_json_schema_check(schema, is_text=True)]
    else:
        checks = [_check(name, rule, schema[name]) for name, rule in _RULES.items() if name in schema]
        checks += _item_checks(schema.get("items", {}))
        if not _covered(schema):
            checks.append(_json_schema_check(schema, is_text=False))
    return pandera.Column(_polars_type(output_type(schema)), checks, nullable=not required or allows_null(schema))


def _covered(schema: Mapping[str, Any]) -> bool:
    known = _SILENT | set(_RULES) | {"items", "$defs", "definitions"}
    return set(schema) <= known and set(schema.get("items", {})) <= _SILENT | set(_LENGTHS)


def _item_checks(items: Mapping[str, Any]) -> list[pandera.Check]:
    def over_items(rule: Rule) -> Rule:
        return lambda column, bound: column.list.eval(rule(pl.element(), bound)).list.all()

    if not items:
        return []
    checks = [
        _check(f"items.{name}", over_items(rule), items[name]) for name, rule in _LENGTHS.items() if name in items
    ]
    return [*checks, _check("items.null", over_items(lambda item, _: item.is_not_null()), None)]


def _provenance_checks(field: pa.Field, fixed: Mapping[str, str]) -> list[pandera.Check]:
    if field.name in fixed:
        return [_check("this_version", lambda column, value: column == value, fixed[field.name])]
    if field.name in _AT_LEAST:
        return [_check("minimum", _RULES["minimum"], _AT_LEAST[field.name])]
    if field.name == "output_sha256":
        return [_check("digest", lambda column, text: column.str.contains(text), "^(sha256:)?[0-9a-f]{64}$")]
    if pa.types.is_string(field.type) and not field.nullable:
        return [_check("minLength", _RULES["minLength"], 1)]
    return []


def _check(name: str, rule: Rule, bound: Any) -> pandera.Check:
    return pandera.Check(lambda data: data.lazyframe.select(rule(pl.col(data.key), bound)), name=name)


def _json_schema_check(schema: Mapping[str, Any], *, is_text: bool) -> pandera.Check:
    validator = jsonschema_rs.validator_for(dict(schema))

    def valid(value: Any) -> bool:
        if value is None:
            return True  # whether it may be null is the column's own rule
        try:
            return validator.is_valid(json.loads(value) if is_text else value)
        except ValueError:
            return False

    def check(data: PolarsData) -> pl.LazyFrame:
        values = data.lazyframe.select(data.key).collect().to_series().to_list()
        return pl.LazyFrame({data.key: [valid(value) for value in values]})

    return pandera.Check(check, name="json_schema")


def _polars_type(kind: pa.DataType) -> pl.DataType:
    series = pl.from_arrow(pa.array([], kind))
    return series.dtype if isinstance(series, pl.Series) else pl.Null()
