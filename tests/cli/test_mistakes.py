"""A user's mistake is exit code 2 and one message that names the thing; a refused gate is 3; nothing is a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.scratch import ScratchProject

COLUMNS = ("--id-column", "no", "--text-column", "body")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("status", "v-12"), "'v-12' is not a version's name"),
        (("status", "nothing"), "no job 'nothing' is declared; there is tickets"),
        (("status",), "no version yet"),
        (("run", "v-000000000000"), "v-000000000000"),
        (("run", "--input", "nothing.csv"), "nothing.csv"),
        (("register", "--input", "own.txt", *COLUMNS), "own.txt"),
        (
            ("register", "--input", "own.csv", "--id-column", "nr"),
            "own.csv: has no column 'nr' (--id-column names it); it has 'no'",
        ),
        (("register", "--id-column", "nr"), "has no column 'nr'"),
        (("register", "--input", "own.csv", *COLUMNS, "--carry", "lang"), "'lang'"),
        (("register", "--input", "empty.csv", *COLUMNS), "no records"),
        (("register", "--input", "broken.parquet", *COLUMNS), "broken.parquet"),
        (("register", "--id-type", "int"), "--id-type"),
        (("run", "--limit", "0"), "--limit"),
        (("run", "--shards", "three"), "--shards"),
        (("results", "current", "--out", "x.parquet"), "nothing of job tickets was published"),
        (("rollback", "--reason", "none"), "nothing was published yet"),
        (("rollback",), "--reason"),
        (("model", "digest", "no/such/folder"), "no/such/folder"),
        (("publsh",), "publsh"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_usage(project: ScratchProject, arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2, and the message says which thing is wrong."""
    (project.root / "own.csv").write_text("no,body\n1,hello\n")
    (project.root / "own.txt").write_text("no,body\n1,hello\n")
    (project.root / "empty.csv").write_text("no,body\n")
    (project.root / "broken.parquet").write_bytes(b"PAR1 not really")
    done = project.cli(*arguments)
    assert done.code == 2, done.stdout + done.stderr
    assert said in done.error


def test_a_wrong_setting(project: ScratchProject) -> None:
    """The message names the variable."""
    done = project.cli("status", BATCH_ASSETS_WORKERS="many")
    assert done.code == 2
    assert "BATCH_ASSETS_WORKERS" in done.error


def test_a_wrong_declaration(project: ScratchProject) -> None:
    """The message names the file, the line and the key."""
    path = project.job / "defs.yaml"
    path.write_text(path.read_text().replace("shard_size: 10", "shard_size: -1"))
    done = project.cli("register")
    assert done.code == 2
    assert "defs.yaml:17: attributes.shard_size" in done.error


def test_publishing_an_unfinished_version_is_refused(project: ScratchProject) -> None:
    """Exit code 3: the command line was right, the version is not."""
    assert project.cli("register").code == 0
    done = project.cli("publish", "tickets")
    assert done.code == 3
    assert "0 of 4 shards are done" in done.error
    assert project.cli("releases", "--json").json == []


def test_results_of_an_unfinished_version(project: ScratchProject) -> None:
    """Exit code 1: a table that lacks records must be asked for by name."""
    assert project.cli("register").code == 0
    out = project.root / "part.parquet"
    done = project.cli("results", "tickets", "--out", str(out))
    assert done.code == 1
    assert "36 records are pending; --partial" in done.error
    assert not out.exists()
    assert project.cli("results", "tickets", "--out", str(out), "--partial", "--json").json["rows"] == 0


def test_an_unexpected_error_keeps_its_traceback(project: ScratchProject) -> None:
    """A bug must not be dressed up as a user's mistake: whoever mends it needs the traceback."""
    path = Path(project.root, "resources", "releases", "log.py")
    path.write_text(path.read_text().replace("def entries(self)", "def entry(self)"))
    done = project.cli("releases")
    assert done.code == 1
    assert "Traceback" in done.stderr
