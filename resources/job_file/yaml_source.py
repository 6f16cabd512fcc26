"""YAML with line numbers: every complaint about a declaration says the file, the line and the field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from batch_assets.domain.errors import InvalidSpec

Place = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)


class YamlSource:
    """One YAML document and the line of each of its keys."""

    def __init__(self, path: Path, value: Any, lines: dict[Place, int]) -> None:
        self.path = path
        self.value = value
        self._lines = lines

    @classmethod
    def read(cls, path: Path) -> YamlSource:
        """Read a file of one document.

        Raises:
            InvalidSpec: it is not there, not UTF-8, not YAML, holds several documents, or names a key twice.
        """
        try:
            text = path.read_text(encoding="utf-8")
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            value = yaml.safe_load(text)
        except FileNotFoundError:
            raise InvalidSpec(f"{path}: no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSpec(f"{path}: cannot be read: {error}") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            raise InvalidSpec(f"{path}:{mark.line + 1 if mark else 1}: {error.problem}") from None
        except yaml.YAMLError as error:
            raise InvalidSpec(f"{path}: {error}") from None
        lines: dict[Place, int] = {}
        if node is not None:
            _note_lines(path, node, (), lines)
        return cls(path, value, lines)

    def error(self, place: Sequence[str | int], why: str) -> InvalidSpec:
        """Return the complaint about `place`; a key that is not there gets the line of what should hold it."""
        return InvalidSpec(f"{self.path}:{self._line(tuple(place))}: {_dotted(place)}: {why}")

    def _line(self, place: Place) -> int:
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def validated(self, model: type[Model], value: Any, place: Place = ()) -> Model:
        """Return `value`, which stands at `place` of this document, as `model`.

        Raises:
            InvalidSpec: it is not; one line for each problem, each with its file, line and field.
        """
        try:
            return model.model_validate(value)
        except ValidationError as error:
            problems = [self.error((*place, *item["loc"]), _reason(item)) for item in error.errors()]
            # No context: "During handling of the above exception" would repeat it all in pydantic's words.
            raise InvalidSpec("\n".join(str(problem) for problem in problems)) from None


def _reason(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "unknown key"
    if item["type"] == "missing":
        return "is required"
    return f"{item['msg'][0].lower()}{item['msg'][1:]}, is {item['input']!r:.80}"


def _dotted(place: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in place) or "the document"


def _note_lines(path: Path, node: yaml.Node, place: Place, lines: dict[Place, int]) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(path, item, (*place, index), lines)
    if isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            here = (*place, str(key.value))
            if here in lines:  # YAML itself would silently keep the last one
                raise InvalidSpec(f"{path}:{key.start_mark.line + 1}: {_dotted(here)}: is there twice")
            lines[here] = key.start_mark.line + 1
            _note_lines(path, item, here, lines)
