"""`run` drives real Dagster runs on the fake engine: what is finished stays finished, and every end has its code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from tests.cli.scratch import BAD, GOOD, ScratchProject

pytestmark = pytest.mark.slow


def answers(project: ScratchProject) -> pl.DataFrame:
    """Return what `current` reads."""
    out = project.root / "answers.parquet"
    assert project.cli("results", "current", "--out", str(out)).code == 0
    return pl.read_parquet(out).sort("record_id")


def instance(project: ScratchProject) -> dg.DagsterInstance:
    """Open the Dagster instance that `run` used, which is the one that `ui` serves."""
    return dg.DagsterInstance.from_config(str(project.data / "dagster_home"))


def test_the_whole_line_and_once_more(project: ScratchProject) -> None:
    """The first run answers and publishes, visibly in Dagster; the second answers nothing and says so."""
    first = project.cli("run", "--json")
    assert first.code == 0, first.stderr
    found = first.json
    assert (found["records"], found["results"], found["dead_letters"], found["pending"]) == (GOOD + BAD, GOOD, BAD, 0)
    assert (found["answered_now"], found["published"]) == (GOOD, 1)
    with instance(project) as dagster:
        assert {run.status for run in dagster.get_runs()} == {dg.DagsterRunStatus.SUCCESS}
        keys = dagster.get_materialized_partitions(dg.AssetKey(["tickets", found["version"]]))
        assert keys == {"00000", "00001", "00002", "00003"}
        for name in ("snapshot", "current"):
            assert dagster.get_latest_materialization_event(dg.AssetKey(["tickets", name])) is not None
    before = answers(project)
    again = project.cli("run")
    assert again.code == 0, again.stderr
    assert f"Nothing to compute: all {GOOD + BAD} records" in again.stdout
    assert answers(project).equals(before)


def test_some_shards_then_the_rest(project: ScratchProject) -> None:
    """A part of the shards can be run; nothing is published before all of them are done."""
    part = project.cli("run", "--shards", "0,2", "--json")
    assert part.code == 0, part.stderr
    assert (part.json["shards_done"], part.json["published"]) == (2, None)
    assert "Not published: 2 shard(s) are not done" in part.stderr
    rest = project.cli("run", part.json["version"], "--json")
    assert rest.code == 0, rest.stderr
    assert (rest.json["shards_done"], rest.json["published"]) == (4, 1)


def test_own_records_and_no_publish(project: ScratchProject) -> None:
    """The user's own records are another version of the same job, and what is not carried is said."""
    (project.root / "own.csv").write_text("no,body,lang\n1,hello,en\n2,good bye,en\n3,,en\n")
    own = ("--input", "own.csv", "--id-column", "no", "--text-column", "body")
    done = project.cli("run", *own, "--no-publish", "--json")
    assert done.code == 0, done.stderr
    assert (done.json["results"], done.json["dead_letters"], done.json["published"]) == (2, 1, None)
    assert "no access labels" in done.stderr
    assert project.cli("releases", "--json").json == []


def test_cancelled_and_resumed(project: ScratchProject) -> None:
    """A cancelled version is not run by accident, and goes on when somebody says so."""
    version = project.cli("register", "--json").json["version"]
    assert project.cli("cancel", version).code == 0
    refused = project.cli("run", version)
    assert refused.code == 2
    assert "--resume" in refused.error
    done = project.cli("run", version, "--resume", "--json")
    assert done.code == 0, done.stderr
    assert done.json["pending"] == 0


def test_a_worker_that_cannot_go_on(project: ScratchProject) -> None:
    """Exit code 1, and the reason is in the message: not a traceback of Dagster's."""
    assert project.cli("register").code == 0
    for path in (project.data / "store" / "snapshots").rglob("*.parquet"):
        path.write_bytes(b"not what the snapshot names")
    done = project.cli("run", "tickets")
    assert done.code == 1
    assert "the run" in done.error


def test_a_refused_gate(project: ScratchProject) -> None:
    """Exit code 3, the check's own words, and nothing is published: a result file was damaged behind our back."""
    done = project.cli("run", "--no-publish", "--json")
    assert done.code == 0, done.stderr
    folder = Path(done.json["results_uri"])
    path = min(folder.glob("*.parquet"))
    frame = pl.read_parquet(path)
    path.unlink()
    frame.head(frame.height - 1).write_parquet(path)
    refused = project.cli("run", done.json["version"])
    assert refused.code == 3, refused.stdout + refused.stderr
    assert "coverage" in refused.error
    assert project.cli("releases", "--json").json == []


def test_an_interrupted_run_loses_nothing_that_was_committed(project: ScratchProject) -> None:
    """Ctrl-C ends the run in Dagster, its workers drain, and the next run goes on."""
    slow = {"BATCH_ASSETS_FAKE_FAULTS": json.dumps({"latency_s": 1.0})}
    path = project.job / "defs.yaml"
    path.write_text(path.read_text().replace("  engine: fake", "  engine: fake\n    max_num_seqs: 2"))
    command = [sys.executable, "-m", "batch_assets.cli.app", "run"]
    with subprocess.Popen(
        command,
        cwd=project.root,
        env=project.environment(**slow),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "records/s" in line and not line.startswith(f"{BAD} / "):
                break  # the first answers are committed
        os.kill(process.pid, signal.SIGINT)
        process.stderr.read()
        assert process.wait(timeout=60) == 130
    with instance(project) as dagster:
        assert [run.status for run in dagster.get_runs(limit=1)] == [dg.DagsterRunStatus.CANCELED]
    status = project.cli("status", "--json").json
    assert 0 < status["results"] < GOOD
    assert status["shards_leased"] == 0
    done = project.cli("run", "--json")
    assert done.code == 0, done.stderr
    assert done.json["answered_now"] == GOOD - status["results"]
