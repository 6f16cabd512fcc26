"""The project's files by the tools that read them, each a real process in a project of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.scratch import ROOT, ScratchProject

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ScratchProject:
    """A project with one small job; no Dagster home, as in a fresh clone."""
    return ScratchProject(tmp_path_factory.mktemp("project"))


def tool(project: ScratchProject, name: str, *arguments: str) -> tuple[int, str]:
    """Run a command of the environment in the project; return its exit code and everything it said."""
    ran = subprocess.run(
        [str(BIN / name), *arguments],
        cwd=project.root,
        env=project.environment(DAGSTER_DISABLE_TELEMETRY="yes"),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("dg", "check", "yaml"),
        ("dg", "check", "defs"),
        ("dg", "list", "defs"),
        ("dagster", "definitions", "validate", "-w", "workspace.yaml"),
    ],
)
def test_a_right_project(project: ScratchProject, command: tuple[str, ...]) -> None:
    """Every check that Dagster has accepts the project."""
    code, said = tool(project, *command)
    assert code == 0, said


def test_the_bundled_jobs_are_right() -> None:
    """The declarations in the repository load, and name the same jobs as their folders."""
    from resources.job_file.read import declared_jobs, load_job_spec

    for name, path in declared_jobs(ROOT / "batch_assets" / "defs").items():
        assert load_job_spec(path).name == name == path.parent.name


def test_dagster_cloud_yaml(project: ScratchProject) -> None:
    """Dagster+'s own check accepts the location; it names the same module as workspace.yaml."""
    (project.root / "dagster_cloud.yaml").write_text((ROOT / "dagster_cloud.yaml").read_text())
    arguments = ("ci", "check", "--project-dir", ".", "--dagster-cloud-connect-check", "skip")
    code, said = tool(project, "dagster-cloud", *arguments)
    assert code == 0, said
    (cloud,) = yaml.safe_load((ROOT / "dagster_cloud.yaml").read_text())["locations"]
    (local,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert cloud["code_source"]["module_name"] == local["python_module"]["module_name"]
    assert cloud["location_name"] == local["python_module"]["location_name"]


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("defs.yaml", "shard_size: 10", "shards: 10", ("dg", "check", "yaml", "defs.yaml:17", "shards")),
        (
            "defs.yaml",
            "max_tokens: 100",
            "max_tokens: -1",
            ("dg", "check", "yaml", "defs.yaml:16", "less than the minimum"),
        ),
        ("defs.yaml", "shard_size: 10", "shards: 10", ("dg", "check", "defs", "defs.yaml:17", "shards")),
        ("prompt.yaml", "system", "systems", ("dg", "check", "defs", "prompt.yaml:1: systems", "unknown key")),
    ],
)
def test_a_wrong_job_stops_everything(
    project: ScratchProject, file: str, old: str, new: str, told: tuple[str, ...]
) -> None:
    """One wrong job is never dropped silently: the check fails, with the file, the line and the key."""
    path = project.job / file
    right = path.read_text()
    path.write_text(right.replace(old, new))
    try:
        code, said = tool(project, *told[:3])
    finally:
        path.write_text(right)
    assert code != 0
    for text in told[3:]:
        assert text in said
