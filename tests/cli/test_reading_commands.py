"""What a finished project tells people and programs."""

from __future__ import annotations

import csv
import json

import duckdb
import polars as pl
import pytest

from tests.cli.scratch import BAD, GOOD, ScratchProject

COLUMNS = {
    "record_id", "category", "summary", "entities", "urgent", "job_version", "shard", "epoch", "attempts",
    "finish_reason", "prompt_tokens", "output_tokens", "output_sha256",
}  # fmt: skip


def test_status_adds_up(finished: ScratchProject) -> None:
    """Records = results + dead letters + pending (I6), as a program reads it."""
    status = finished.cli("status", "--json").json
    expected = {
        "records": GOOD + BAD,
        "results": GOOD,
        "dead_letters": BAD,
        "pending": 0,
        "shards_done": 4,
        "shards_total": 4,
        "state": "done",
    }
    assert {name: status[name] for name in expected} == expected
    assert finished.cli("status", status["version"], "--json").json == status
    assert finished.cli("status", "tickets", "--json").json == status
    assert finished.cli("status", "current", "--json").json == status


def test_status_for_people(finished: ScratchProject) -> None:
    """The sum is shown as a sum."""
    assert f"{GOOD + BAD} records = {GOOD} results + {BAD} dead letters + 0 pending" in finished.cli("status").stdout


def test_versions_and_releases(finished: ScratchProject) -> None:
    """Lists for programs: what is registered, and what was published and why."""
    (version,) = finished.cli("versions", "--json").json
    (release,) = finished.cli("releases", "--json").json
    assert (version["job"], version["version"]) == ("tickets", release["version"])
    assert (release["sequence"], release["rows"]) == (1, GOOD)
    assert release["reason"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_results_in_every_format(finished: ScratchProject, ending: str) -> None:
    """One row a record, with the columns that the issue names."""
    out = finished.root / f"results.{ending}"
    done = finished.cli("results", "current", "--out", str(out), "--json")
    assert done.code == 0, done.stderr
    assert done.json["rows"] == GOOD
    read = {
        "parquet": lambda: pl.read_parquet(out).to_dicts(),
        "csv": lambda: list(csv.DictReader(out.read_text().splitlines())),
        "jsonl": lambda: [json.loads(line) for line in out.read_text().splitlines()],
    }
    rows = read[ending]()
    assert len(rows) == GOOD
    assert set(rows[0]) >= COLUMNS


def test_dead_letters_say_why(finished: ScratchProject) -> None:
    """Each record without a result is named, by id or by its place in the source, with its class."""
    letters = finished.cli("dead-letters", "--json").json
    assert {(letter["object_row"], letter["failure"]) for letter in letters} == {
        (GOOD, "empty_text"),
        (GOOD + 1, "missing_id"),
        (GOOD + 2, "invalid_text"),
    }
    shown = finished.cli("dead-letters")
    assert f"{BAD} dead letters" in shown.stdout
    out = finished.root / "dead.csv"
    assert finished.cli("dead-letters", "--out", str(out)).code == 0
    assert len(list(csv.DictReader(out.read_text().splitlines()))) == BAD


def test_the_view_is_sql_that_duckdb_runs(finished: ScratchProject) -> None:
    """Somebody who has nothing but DuckDB reads `current`."""
    with duckdb.connect() as connection:
        connection.execute(finished.cli("view").stdout)
        assert connection.execute("SELECT count(*) FROM tickets_current").fetchone() == (GOOD,)


def test_publishing_what_is_current_changes_nothing(finished: ScratchProject) -> None:
    """A script may publish twice."""
    again = finished.cli("publish", "tickets", "--json")
    assert (again.code, again.json["appended"], again.json["sequence"]) == (0, False, 1)


def test_json_is_one_document_even_for_an_error(finished: ScratchProject) -> None:
    """A program that reads stdout gets JSON whatever happens, and the reason with it."""
    done = finished.cli("status", "v-000000000000", "--json")
    assert (done.code, done.json["exit_code"], done.json["kind"]) == (2, 2, "UnknownVersion")
    assert "v-000000000000" in done.error


def test_settings(finished: ScratchProject) -> None:
    """The values in force, so that nobody has to guess which folder is meant."""
    assert finished.cli("settings", "--json").json["BATCH_ASSETS_DATA_DIR"] == str(finished.data)
