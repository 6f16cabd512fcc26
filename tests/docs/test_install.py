"""What `make` does before there is a virtual environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that an installation reads, in a folder of their own."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("python", ["no-such-python", "./python3.12"])
def test_another_python_is_refused_before_anything_is_made(clone: Path, python: str) -> None:
    """The engine's CPU wheel is for Python 3.11 alone: an installer would say so after minutes, in other words."""
    old = clone / "python3.12"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.12.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = make(clone, "install", f"PYTHON={python}")
    assert done.returncode != 0
    assert "needs Python 3.11" in done.stderr
    assert not (clone / ".venv").exists()


def test_help_lists_what_the_readme_names(clone: Path) -> None:
    """`make` alone says what there is."""
    done = make(clone)
    assert done.returncode == 0
    for target in ("demo", "ui", "test", "test-slow", "check", "bench"):
        assert f"make {target} " in done.stdout
