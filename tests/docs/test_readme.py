"""The README says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, documents
from tests.docs.generated import README, filled

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_its_tables_are_the_codes_own() -> None:
    """Commands, exit codes and settings; `make readme` writes them again."""
    text = README.read_text()
    assert text == filled(text)


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    """A document that sends a reader to a file that is not there wastes their time."""
    targets = [target for target in LINK.findall(path.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_setting_says_what_it_is() -> None:
    """A setting without a meaning in the table is one that nobody dares to change."""
    rows = [line for line in README.read_text().splitlines() if line.startswith("| `BATCH_ASSETS_")]
    assert rows
    assert [line for line in rows if line.rstrip().endswith("|  |")] == []
