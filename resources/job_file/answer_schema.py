"""The output schema file: valid JSON Schema of an object, and worked examples that satisfy it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

from batch_assets.domain.canonical import canonical_json
from batch_assets.domain.errors import InvalidSpec
from batch_assets.domain.spec import Example


def read_output_schema(path: Path) -> str:
    """Return the schema as canonical JSON text.

    Raises:
        InvalidSpec: the file is not there, not JSON, or not a valid JSON Schema of an object.
    """
    try:
        schema = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_no_repeats)
    except FileNotFoundError:
        raise InvalidSpec(f"{path}: no such file") from None
    except json.JSONDecodeError as error:
        raise InvalidSpec(f"{path}:{error.lineno}: is not JSON: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise InvalidSpec(f"{path}: {error}") from None
    _check_schema(path, schema)
    return canonical_json(schema)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    repeated = sorted({key for key in keys if keys.count(key) > 1})
    if repeated:  # JSON itself would silently keep the last one
        raise ValueError(f"key {', '.join(repeated)} is there twice in one object")
    return dict(pairs)


def _check_schema(path: Path, schema: Any) -> None:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise InvalidSpec(f"{path}: type: must be 'object': an answer is one JSON object")
    try:
        jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        place = ".".join(str(part) for part in getattr(error, "instance_path", [])) or "the schema"
        raise InvalidSpec(f"{path}: {place}: is not valid JSON Schema: {_first_line(error)}") from None


def check_examples(path: Path, examples: tuple[Example, ...], output_schema: str) -> None:
    """Check that the answer of each worked example is what the schema asks of the model.

    Raises:
        InvalidSpec: one is not JSON or breaks the schema; the message names the prompt file and the example.
    """
    validator = jsonschema_rs.validator_for(json.loads(output_schema))
    for index, example in enumerate(examples):
        where = f"{path}: examples.{index}.assistant"
        try:
            answer = json.loads(example.assistant)
        except json.JSONDecodeError as error:
            raise InvalidSpec(f"{where}: is not JSON: {error}") from None
        broken = next(iter(validator.iter_errors(answer)), None)
        if broken is not None:
            field = ".".join(str(part) for part in broken.instance_path) or "the answer"
            raise InvalidSpec(f"{where}: {field} does not satisfy the output schema: {_first_line(broken)}")


def _first_line(error: Exception) -> str:
    return str(getattr(error, "message", None) or error).splitlines()[0]
