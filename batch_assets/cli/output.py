"""What a command prints: people's text on stderr or stdout, and with `--json` exactly one JSON document on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 200  # in a file or a pipe there is no width to fit, and a folded version name helps nobody

_state = {"json": False}


def use_json(wanted: bool) -> None:  # noqa: FBT001 - the value of an option, passed on
    """Remember whether stdout belongs to a program: then errors go there as JSON, too."""
    _state["json"] = wanted


def wants_json() -> bool:
    """Say whether the command was called with `--json`."""
    return _state["json"]


def emit(value: Any) -> None:
    """Print the one JSON document."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
    sys.stdout.flush()


def say(text: str) -> None:
    """Print a line for people: on stdout, or on stderr where stdout is a program's."""
    stream = sys.stderr if wants_json() else sys.stdout
    stream.write(text + "\n")
    stream.flush()


def note(text: str) -> None:
    """Print a line about what is going on; never on stdout."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def stderr_console() -> Console:
    """Return a console for progress."""
    return Console(stderr=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print a table for people; `right` names the columns of numbers. Cells are text, never markup."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        drawn.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(_cell(value)) for value in row))
    console = Console(stderr=wants_json())
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    console.print(drawn)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
