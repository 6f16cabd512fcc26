"""The README's tables that are made from the code. `make readme` writes them; a test compares them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from batch_assets.cli.app import app
from batch_assets.cli.exits import MEANING
from batch_assets.cli.settings_command import markdown_table

README = Path(__file__).parents[2] / "README.md"


def commands_table() -> str:
    """Return every command with its arguments and the first line of its help."""
    lines = ["| command | what it does |", "|---|---|"]
    for name, command in _leaves(typer.main.get_command(app)):
        names = [
            item.metavar or str(item.name).upper() for item in command.params if item.param_type_name == "argument"
        ]
        call = " ".join(["batch-assets", name, *names]).replace("|", "\\|")
        lines.append(f"| `{call}` | {command.help.strip().splitlines()[0]} |")
    return "\n".join(lines)


def _leaves(group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", leaf) for inner, leaf in _leaves(command))
        else:
            yield name, command


def exit_codes_table() -> str:
    """Return the exit codes and what they mean."""
    rows = [f"| {code.value} | {text} |" for code, text in MEANING.items()]
    return "\n".join(["| exit code | meaning |", "|---|---|", *rows])


TABLES: dict[str, Callable[[], str]] = {
    "commands": commands_table,
    "exit-codes": exit_codes_table,
    "settings": markdown_table,
}


def filled(text: str) -> str:
    """Return the README with its tables made anew."""
    for name, make in TABLES.items():
        block = f"<!-- {name} -->\n{make()}\n<!-- /{name} -->"
        text, times = re.subn(f"<!-- {name} -->.*?<!-- /{name} -->", lambda _, new=block: new, text, flags=re.DOTALL)  # type: ignore[misc]
        assert times == 1, f"the README has {times} places for the table of {name}"
    return text


if __name__ == "__main__":
    README.write_text(filled(README.read_text()))
