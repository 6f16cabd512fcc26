"""`make demo` and the command line after it, as a user meets them: the real model in real vLLM, real processes."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import polars as pl
import pytest

from resources.job_file.read import load_job_spec
from tests.acceptance.make import CLI, ROOT, SHARED, Ran, cli, make

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

JOB = "support_tickets"
DEFS = ROOT / "batch_assets" / "defs" / JOB / "defs.yaml"
REAL = SHARED / "support_small.parquet"
REAL_RECORDS = 200
COLUMNS = {
    "record_id", "category", "summary", "entities", "urgent", "job_version", "shard", "epoch", "attempts",
    "finish_reason", "prompt_tokens", "output_tokens", "output_sha256",
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this module's demos keep everything."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(data: Path) -> Ran:
    """The first `make demo`."""
    ran = make(data, "demo")
    assert ran.code == 0, ran.text
    return ran


def answers(data: Path, version: str) -> pl.DataFrame:
    """Return a version's results as the command line writes them."""
    out = data / f"{version}.parquet"
    done = cli(data, "results", version, "--out", str(out))
    assert done.code == 0, done.text
    return pl.read_parquet(out).sort("record_id")


def test_the_bundled_sample(data: Path, first: Ran) -> None:
    """The demo ends with every record accounted for, and shows what the issue asks it to show."""
    status = cli(data, "status", "--json").json
    assert status["records"] == status["results"] + status["dead_letters"]
    assert status["pending"] == 0
    assert status["shards_done"] == status["shards_total"] >= 4
    assert status["version"] in first.text
    assert re.search(r"\d+ / \d+ records .* records/s +ETA", first.text), "no progress line"
    assert f"{status['records']} records = {status['results']} results + {status['dead_letters']} dead" in first.text
    assert "category" in first.text
    assert str(data / "store") in first.text, "it does not say where the Parquet lies"
    assert f"make ui DATA={data}" in first.text
    assert [release["sequence"] for release in cli(data, "releases", "--json").json] == [1]


def test_results_have_answers_and_provenance(data: Path, first: Ran) -> None:
    """One row a record, with what the model said and where it comes from (I10)."""
    status = cli(data, "status", "--json").json
    frame = answers(data, status["version"])
    assert set(frame.columns) >= COLUMNS
    assert frame.height == status["results"] == frame["record_id"].n_unique()
    assert frame["job_version"].unique().to_list() == [status["version"]]
    assert frame["category"].n_unique() > 1, "a category chart with one bar teaches nothing"
    current = data / "current.parquet"
    assert cli(data, "results", "current", "--out", str(current)).code == 0
    assert pl.read_parquet(current).sort("record_id").equals(frame)


def test_a_second_demo_recomputes_nothing(data: Path, first: Ran) -> None:
    """A second `make demo` is quick, says so, and no answer is younger than it was."""
    version = cli(data, "status", "--json").json["version"]
    before = answers(data, version)
    again = make(data, "demo")
    assert again.code == 0, again.text
    assert "nothing to compute" in again.text.lower()
    after = answers(data, version)
    same = ["record_id", "epoch", "worker", "answered_at", "output_sha256"]
    assert after.select(same).equals(before.select(same))
    assert len(cli(data, "releases", "--json").json) == 1


@pytest.mark.skipif(not REAL.is_file(), reason=f"{REAL.name}: no shared data beside this clone")
def test_real_records(data: Path, first: Ran) -> None:
    """Support messages that nobody here wrote go through vLLM, and the same command again computes none of them."""
    own = ("demo", f"INPUT={REAL}", f"LIMIT={REAL_RECORDS}")
    ran = make(data, *own)
    assert ran.code == 0, ran.text
    assert "no access labels" in ran.text, "nobody was told that the input has no access labels"
    status = cli(data, "status", "--json").json
    assert status["records"] == REAL_RECORDS
    assert status["results"] + status["dead_letters"] == REAL_RECORDS
    before = answers(data, status["version"])
    assert (before["output_tokens"] > 0).all()
    again = make(data, *own)
    assert again.code == 0, again.text
    assert "nothing to compute" in again.text.lower()
    assert answers(data, status["version"]).select("answered_at", "epoch").equals(before.select("answered_at", "epoch"))


def test_own_records_in_csv(data: Path, first: Ran) -> None:
    """`make demo INPUT=tickets.csv ID=... TEXT=... LIMIT=n`, with a bad record among them: it costs no good one."""
    path = data / "tickets.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["ticket_no", "body"])
        writer.writerows([f"t-{number}", f"My card number {number} was refused at the till."] for number in range(9))
        writer.writerow(["t-9", ""])
        writer.writerow(["t-beyond-the-limit", "never read"])
    ran = make(data, "demo", f"INPUT={path}", "ID=ticket_no", "TEXT=body", "LIMIT=10")
    assert ran.code == 0, ran.text
    status = cli(data, "status", "--json").json
    assert (status["records"], status["results"] + status["dead_letters"]) == (10, 10)
    letters = cli(data, "dead-letters", "--json").json
    assert "t-9" in {letter["record_id"] for letter in letters}


def test_rollback(data: Path, first: Ran) -> None:
    """Rolling back appends the older release; readers of `current` see its rows again."""
    make(data, "demo")
    (data / "two.csv").write_text("record_id,text\na,Where is my refund?\nb,I cannot log in.\n")
    assert make(data, "demo", f"INPUT={data / 'two.csv'}").code == 0
    newest, *older = cli(data, "releases", "--json").json
    done = cli(data, "rollback", "--reason", "the test says so", "--json")
    assert done.code == 0, done.text
    assert done.json["sequence"] == newest["sequence"] + 1
    assert done.json["version"] == next(item["version"] for item in older if item["version"] != newest["version"])
    top = cli(data, "releases", "--json").json[0]
    assert (top["reason"], top["sequence"]) == ("the test says so", newest["sequence"] + 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("INPUT=nothing.parquet",), "nothing.parquet"),
        (("INPUT=README.md",), "README.md"),
        (("ID=no_such_column",), "no_such_column"),
        (("LIMIT=0",), "--limit"),
        (("WORKERS=none",), "BATCH_ASSETS_WORKERS"),
    ],
)
def test_a_mistake_is_one_message(data: Path, first: Ran, arguments: tuple[str, ...], said: str) -> None:
    """A user's mistake ends `make demo` with what is wrong, without a traceback."""
    ran = make(data, "demo", *arguments)
    assert ran.code != 0
    assert said in ran.text
    assert "Traceback" not in ran.text


def test_the_models_digest_is_the_pinned_one() -> None:
    """What `model digest` prints is what the job's YAML pins, and what `model prepare` made."""
    pinned = load_job_spec(DEFS).model
    done = cli(ROOT / "data", "model", "digest", pinned.path)
    assert (done.code, done.stdout.strip()) == (0, pinned.digest), done.text
    assert CLI.is_file()
