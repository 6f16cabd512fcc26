"""Every command in README and docs does what the document says it does, because a test runs it."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.scratch import ScratchProject
from tests.docs.blocks import ROOT, commands
from tests.docs.known import COVERED, RUN

SHOWN_VERSION = "v-3f2a9c1b0d4e"


def test_every_command_is_tested() -> None:
    """A command that nobody runs is wrong sooner or later; a new one needs an entry in tests/docs/known.py."""
    unknown = sorted({f"{item.document}: {item.text}" for item in commands() if not _is_known(item.text)})
    assert unknown == []


def test_no_entry_outlives_its_command() -> None:
    """An entry without a command would make this folder look more thorough than it is."""
    shown = {item.text for item in commands()}
    assert sorted((set(RUN) | set(COVERED)) - shown) == []


@pytest.mark.parametrize("command", sorted(COVERED))
def test_the_named_test_is_there(command: str) -> None:
    """A renamed test must not leave its command untested."""
    name, _, function = COVERED[command].partition("::")
    tree = ast.parse((ROOT / name).read_text())
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def _is_known(command: str) -> bool:
    test = re.fullmatch(r"\.venv/bin/(?:python -m )?pytest (\S+)(?: .*)?", command)
    return command in RUN or command in COVERED or (test is not None and (ROOT / test[1]).exists())


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> ScratchProject:
    """A project with two releases, so that there is something to roll back to."""
    project = ScratchProject(tmp_path_factory.mktemp("twice"))
    project.finish()
    project.finish("--limit", "15")
    return project


@pytest.mark.parametrize("command", RUN)
def test_the_command_works(twice: ScratchProject, command: str) -> None:
    """Run as it is shown, but for the interpreter's folder and the version's name."""
    newest = twice.cli("status", "--json").json["version"]
    words = [word.replace(SHOWN_VERSION, newest) for word in shlex.split(command)]
    program = Path(sys.executable).parent / Path(words[0]).name
    done = subprocess.run(
        [str(program), *words[1:]], cwd=twice.root, env=twice.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_runs_the_test_commands() -> None:
    """What the README calls the tests is what CI runs, in a fresh clone."""
    script = (ROOT / ".ci" / "run").read_text()
    for target in ("install-dev", "check", "test", "test-slow"):
        assert re.search(rf"^make {target}\b", script, re.MULTILINE), target


def test_torch_index_is_used() -> None:
    """Where no wheel of torch lies about, the index that the README names must reach the installer, and win fairly."""
    script = (ROOT / "deploy" / "install.sh").read_text()
    assert '--index "$TORCH_INDEX" --index-strategy unsafe-best-match' in script
    shown = subprocess.run(
        ["make", "-n", "install", "TORCH_INDEX=https://example.org/whl"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MAKEFLAGS": ""},
    )
    assert "deploy/install.sh" in shown.stdout
