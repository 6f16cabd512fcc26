"""`batch-assets diff`: paths, versions and `current`, in numbers for programs and a line for people."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.scratch import BAD, GOOD, RECORDS, ScratchProject

COUNTS = ("changed", "new", "deleted", "unchanged")


def numbers(value: dict[str, int]) -> tuple[int, ...]:
    return tuple(value[name] for name in COUNTS)


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> ScratchProject:
    """A project with a registered version of its declared input; tests only read it."""
    project = ScratchProject(tmp_path_factory.mktemp("registered"))
    done = project.cli("register", "--json")
    assert done.code == 0, done.stderr
    records = [dict(record) for record in RECORDS[1:]]
    records[0]["text"] = "another message"
    records[1]["lang"] = "de"
    records[2]["access"] = ["managers"]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (project.root / "next.jsonl").write_text(lines)
    (project.root / "one.csv").write_text("no,body\n1,hello\n2,hello\n")
    (project.root / "two.csv").write_text("no,body\n2,hallo\n3,hello\n3,hello\n")
    return project


def test_a_version_and_a_path(registered: ScratchProject) -> None:
    """The version stands for its source: one text and one label changed, one record is gone; `lang` is not shown."""
    version = registered.cli("status", "--json").json["version"]
    done = registered.cli("diff", version, "next.jsonl", "--json")
    assert done.code == 0, done.stderr
    assert numbers(done.json) == (2, 0, 1, GOOD + BAD - 4)
    assert (done.json["unusable_old"], done.json["unusable_new"], done.json["unusable_alike"]) == (1, 1, True)
    assert done.json["content"] == ["text", "access"]
    assert (done.json["records_old"], done.json["records_new"]) == (GOOD + BAD, GOOD + BAD - 1)
    same = registered.cli("diff", version, version)
    assert f"0 changed, 0 new, 0 deleted, {GOOD + BAD - 1} unchanged" in same.stdout
    assert "1 rows of the old input, 1 of the new one" in same.stdout


def test_two_paths_with_columns_of_their_own(registered: ScratchProject) -> None:
    """Nothing needs to be registered; the rows are written with the place in each input."""
    options = ("--id-column", "no", "--text-column", "body")
    out = registered.root / "rows.csv"
    done = registered.cli("diff", "one.csv", "two.csv", *options, "--json", "--out", str(out))
    assert done.code == 0, done.stderr
    assert numbers(done.json) == (1, 0, 1, 0)
    assert list(csv.reader(out.read_text().splitlines()))[1:] == [
        ["2", "changed", "one.csv", "1", "two.csv", "0"],
        ["3", "unusable", "", "", "two.csv", "1"],
        ["3", "unusable", "", "", "two.csv", "2"],
        ["1", "deleted", "one.csv", "0", "", ""],
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("one.csv", "nothing.csv"), "nothing.csv"),
        (("one.csv", "two.csv"), "one.csv: has no column 'record_id'"),
        (("one.csv", "next.jsonl", "--id-column", "no", "--text-column", "body"), "next.jsonl: has no column 'no'"),
        (("one.csv", "two.csv", "--out", "rows.xlsx"), "rows.xlsx: the name must end in"),
        (("VERSION", "one.csv", "--id-column", "no"), "a version is compared by the columns"),
        (("v-000000000000", "one.csv"), "v-000000000000"),
        (("current", "next.jsonl"), "nothing of job tickets was published yet"),
        (("one.csv", "two.csv", "--job", "other"), "no job 'other' is declared"),
    ],
)
def test_mistakes(registered: ScratchProject, arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2 and one message that names the thing."""
    version = registered.cli("status", "--json").json["version"]
    done = registered.cli("diff", *[version if word == "VERSION" else word for word in arguments])
    assert done.code == 2, done.stdout + done.stderr
    assert said in done.error


def test_current_is_what_was_published(finished: ScratchProject) -> None:
    """Compared with what the release was made from, not with what lies under the declared path today."""
    done = finished.cli("diff", "current", str(finished.job / "records.jsonl"), "--json")
    assert numbers(done.json) == (0, 0, 0, GOOD + BAD - 1)


def test_the_real_day_after(registered: ScratchProject, shared_data: Path) -> None:
    """Exactly the records of the true difference, as the issue asks for them."""
    out = registered.root / "changes.parquet"
    sides = [str(shared_data / f"support_{name}.parquet") for name in ("small", "changed")]
    done = registered.cli("diff", *sides, "--json", "--out", str(out))
    assert done.code == 0, done.stderr
    assert numbers(done.json) == (50, 30, 20, 930)
    expected = pl.read_csv(shared_data / "changes_expected.csv").select(
        "record_id", pl.col("change").replace("edited", "changed")
    )
    found = pl.read_parquet(out).select("record_id", "change")
    assert found.sort("record_id").equals(expected.sort("record_id"))
