"""The commands that the documents tell a reader to type: every line of every ```sh block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """One command and the document that shows it."""

    document: str
    text: str


def documents() -> list[Path]:
    """Return every Markdown file that a reader is sent to."""
    return sorted(
        [
            *ROOT.glob("*.md"),
            *ROOT.glob("docs/**/*.md"),
            *ROOT.glob("tests/README.md"),
            *ROOT.glob("benchmarks/*.md"),
            *ROOT.glob("deploy/*.md"),
            *ROOT.glob("batch_assets/**/*.md"),
        ]
    )


def commands() -> list[Command]:
    """Return the commands of all documents, in order; a line that ends in a backslash goes on."""
    found = []
    for path in documents():
        for block in BLOCK.findall(path.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                text = " ".join(line.partition(" # ")[0].split())
                if text and not text.startswith("#"):
                    found.append(Command(path.relative_to(ROOT).as_posix(), text))
    return found
