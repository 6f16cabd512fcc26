"""`batch-assets simulate`: its table, its JSON, its picture, and its mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from batch_assets.cli.app import app
from batch_assets.domain.errors import InvalidSpec, UserError

SMALL = ["--records", "40000", "--workers", "4", "--seeds", "2", "--shard-size", "500,2000"]


def simulate(*words: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *words])


def test_json_is_a_list_of_rows_with_the_agreed_names() -> None:
    """Scripts read exactly these keys, a row for each mode and shard size, in the order asked."""
    done = simulate(*SMALL, "--json", "--mode", "epoch-parts", "--mode", "item-keyed,shard-append")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [(row["mode"], row["shard_size"]) for row in rows] == [
        (mode, size) for mode in ("epoch-parts", "item-keyed", "shard-append") for size in (500, 2_000)
    ]
    assert {tuple(row) for row in rows} == {("mode", "shard_size", "makespan_h", "lost_gpu_h", "duplicate_rows")}


def test_without_json_people_get_a_table_and_a_recommendation(tmp_path: Path) -> None:
    """With `--plot` there is a picture, too."""
    picture = tmp_path / "interruptions.png"
    done = simulate(*SMALL, "--plot", str(picture), "--notice", "--waves")
    assert done.exit_code == 0, done.output
    assert "epoch-parts" in done.stdout
    assert "recommended: " in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_one_world_is_replayed_by_its_seed() -> None:
    """The trace of a world, and its verdict."""
    done = simulate("--world", "3")
    assert done.exit_code == 0, done.output
    assert "Claimed" in done.stdout
    assert "world 3: every invariant held" in done.stdout


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--mode", "item"], "--mode"),
        (["--shard-size", "many"], "--shard-size"),
        (["--shard-size", "0"], "--shard-size"),
        (["--stall-share", "2"], "stall_share"),
        (["--published-draws", "--waves"], "--waves"),
        (["--plot", "table.docx"], "--plot"),
    ],
)
def test_mistakes_are_named(words: list[str], names: str) -> None:
    """A wrong option is a user's mistake, with the option's name; never a traceback."""
    done = simulate(*words)
    assert isinstance(done.exception, InvalidSpec | UserError), done.output
    assert names in str(done.exception)
