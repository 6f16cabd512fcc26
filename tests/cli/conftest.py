"""Projects for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.scratch import ScratchProject


@pytest.fixture
def project(tmp_path: Path) -> ScratchProject:
    """A project where nothing was done yet."""
    return ScratchProject(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> ScratchProject:
    """A project whose job was finished and published once; tests only read it."""
    made = ScratchProject(tmp_path_factory.mktemp("finished"))
    made.finish()
    return made
