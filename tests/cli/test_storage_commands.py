"""`compact` and `gc`: what the store holds, folded and given up."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.cli.scratch import BAD, GOOD, ScratchProject


def files(project: ScratchProject) -> set[str]:
    """Every object of the project's store."""
    root = project.data / "store"
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_gc_says_first_and_deletes_then(project: ScratchProject) -> None:
    """A published version: its staging goes, by reason and with its size, and `current` reads what it read."""
    version = project.finish()
    before = files(project)
    said = project.cli("gc", "--json")
    assert (said.code, said.json["deleted"], said.json["kept_releases"]) == (0, False, [1])
    assert set(said.json["by_reason"]) == {"staging of a published version"}
    assert said.json["kept_versions"] == {version: "a kept release reads it"}
    assert files(project) == before
    staged = {key for key in before if key.startswith("staging/")}
    assert {item["key"] for item in said.json["keys"]} == staged
    size = sum(Path(project.data, "store", key).stat().st_size for key in staged)
    done = project.cli("gc", "tickets", "--delete")
    assert done.code == 0, done.stderr
    assert f"{len(staged)} objects, {size:,} bytes deleted; 1 releases are kept" in done.stdout
    assert files(project) == before - staged
    assert project.cli("gc", "--json").json["objects"] == 0
    assert project.cli("audit").code == 0
    out = project.root / "results.parquet"
    assert project.cli("results", "current", "--out", str(out), "--json").json["rows"] == GOOD


def test_gc_of_a_job_without_anything(project: ScratchProject) -> None:
    """Nothing registered: nothing to give up, and no error."""
    assert project.cli("gc", "--json").json["objects"] == 0


def test_a_rollback_past_retention_is_refused(project: ScratchProject) -> None:
    """One release is kept, and none by age: the older one may be going at this moment."""
    project.finish()
    project.finish("--limit", "15")
    only_one = {"BATCH_ASSETS_KEEP_RELEASES": "1", "BATCH_ASSETS_KEEP_DAYS": "0"}
    refused = project.cli("rollback", "--reason", "x", **only_one)
    assert refused.code == 2
    assert "BATCH_ASSETS_KEEP_RELEASES" in refused.error
    assert project.cli("rollback", "--reason", "x").code == 0


def test_forget_leaves_nothing_of_a_record(project: ScratchProject) -> None:
    """Results, staging and the converted input: gone; the audit is clean, and the user's own file is named.

    The job's input still holds it: taking it again would answer it again, which only its owner can prevent.
    """
    version = project.finish()
    done = project.cli("forget", "r-007", "--json")
    assert done.code == 0, done.stderr
    assert (done.json["release"], len(done.json["sources"])) == (2, 1)
    assert "records.jsonl" in done.json["sources"][0]
    assert "r-007" not in done.stdout
    for key in files(project):
        path = project.data / "store" / key
        if path.suffix == ".parquet":
            assert "r-007" not in pl.read_parquet(path)["record_id"].to_list(), key
            assert "message number 7'" not in str(pl.read_parquet(path).to_dicts()), key
    assert project.cli("audit").code == 0
    status = project.cli("status", "--json").json
    assert (status["results"], status["dead_letters"], status["pending"]) == (GOOD - 1, BAD + 1, 0)
    out = project.root / "results.parquet"
    assert project.cli("results", "current", "--out", str(out), "--json").json["rows"] == GOOD - 1
    assert project.cli("forget", "r-007", "--json").json["rewritten"] == {}
    for row in ("r-empty", "r-number"):
        assert project.cli("forget", row).code == 0
    assert project.cli("audit", version).code == 0


@pytest.mark.parametrize("command", ["compact", "gc"])
def test_an_unknown_job_is_a_mistake(finished: ScratchProject, command: str) -> None:
    """Named as everywhere."""
    assert finished.cli(command, "nobody").code == 2


def test_compacting_one_layer_changes_nothing(finished: ScratchProject) -> None:
    """There is nothing to fold."""
    done = finished.cli("compact", "--json")
    assert (done.code, done.json["appended"], done.json["sequence"]) == (0, False, 1)
    assert "nothing to fold" in done.stderr
