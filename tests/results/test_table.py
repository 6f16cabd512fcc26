"""Tables of a version while it runs and after, and files of them."""

from __future__ import annotations

import json

import polars as pl
import pytest

from batch_assets.domain.errors import UserError
from resources.results.export import write_results
from resources.results.scan import ObjectScanner
from resources.results.staging import PartWriter, take_over
from resources.results.table import scan_dead_letters, scan_version
from tests.results.world import JOB, World


@pytest.fixture
def world(store, tmp_path) -> World:
    return World.build(store, tmp_path, refused=[1, 12])


@pytest.fixture
def half_done(world, duck):
    """Shard 0 done, shard 1 leased with parts (one of them late), shard 2 untouched."""
    done = world.run_shard(duck, world.plan.shards[0], dead_rows=[2])
    take_over(world.store, JOB, world.lease(1, 1))
    zombie = PartWriter(world.store, world.entry.spec, world.lease(1, 1))
    zombie.commit(world.results(1, [0, 1], 1))
    zombie.bury(world.dead(1, [3], 1))
    take_over(world.store, JOB, world.lease(1, 2))
    live = PartWriter(world.store, world.entry.spec, world.lease(1, 2))
    live.commit(world.results(1, [1, 3], 2))
    live.bury(world.dead(1, [4], 2))
    zombie.commit(world.results(1, [5, 6, 7], 1))
    shards = world.plan.shards
    return [world.row(shards[0], done), world.row(shards[1], None, epoch=2), world.row(shards[2], None, epoch=0)]


def scan(world, rows, *, partial=False) -> pl.DataFrame:
    scanner = ObjectScanner(world.store)
    return scan_version(world.store, scanner, world.entry.spec, world.version, rows, partial=partial).collect()


def letters(world, rows) -> pl.DataFrame:
    scanner = ObjectScanner(world.store)
    frame = scan_dead_letters(world.store, scanner, world.entry.spec, world.version, rows, world.refused_key)
    return frame.collect()


def test_finished_shards_only(world, half_done):
    """Without `partial`, what is not finished is not there."""
    assert scan(world, half_done)["record_id"].to_list() == [f"r00000{row}" for row in (0, 3, 4, 5, 6, 7, 8, 9)]


def test_partial_shows_what_stands(world, half_done):
    """Committed rows of open shards, each once, the first commit's; late rows are not shown (I1, I7)."""
    frame = scan(world, half_done, partial=True).filter(pl.col("shard") == 1)
    assert frame.select("row", "epoch").rows() == [(0, 1), (1, 1), (3, 2)]


def test_dead_letters_of_every_kind(world, half_done):
    """Refused at planning, of finished shards, standing in open ones; a record with a result is not among them."""
    shown = letters(world, half_done).select("record_id", "failure").rows()
    assert shown == [
        ("r000001", "empty_text"),
        ("r000012", "empty_text"),
        ("r000002", "invalid_output"),
        ("r000014", "invalid_output"),
    ]


def test_nothing_done_yet(world):
    """Before the first commit: no rows, and all the columns."""
    rows = [world.row(shard, None, epoch=0) for shard in world.plan.shards]
    frame = scan(world, rows, partial=True)
    assert frame.height == 0
    assert frame.schema["tags"] == pl.List(pl.String)
    assert letters(world, rows).height == 2


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.jsonl"])
def test_a_file_holds_each_record_once(world, half_done, tmp_path, name):
    """Each format gives the same records back, lists and awkward text included; no other file is left."""
    out = tmp_path / "deep" / name
    frame = scan_version(world.store, ObjectScanner(world.store), world.entry.spec, world.version, half_done)
    awkward = pl.lit('a "quote", a\nline, ünïcode')
    write_results(frame.with_columns(summary=awkward, tags=pl.lit(['x"y', "é,"], dtype=pl.List(pl.String))), out)
    reads = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson}
    shown = reads[out.suffix](out)
    assert shown["record_id"].to_list() == frame.collect()["record_id"].to_list()
    assert shown["summary"].unique().to_list() == ['a "quote", a\nline, ünïcode']
    tags = shown["tags"][0]
    assert (json.loads(tags) if out.suffix == ".csv" else tags.to_list()) == ['x"y', "é,"]
    assert [item.name for item in out.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["dead.csv", "dead.jsonl"])
def test_what_the_model_said_is_written_as_text(world, half_done, tmp_path, name):
    """Bytes that are UTF-8 become text; others base64, with a mark, so that nothing is lost or guessed."""
    scanner = ObjectScanner(world.store)
    frame = scan_dead_letters(
        world.store, scanner, world.entry.spec, world.version, half_done, world.refused_key
    ).with_columns(output=pl.when(pl.col("shard") == 0).then(pl.lit("süß".encode())).otherwise(pl.col("output")))
    write_results(frame, tmp_path / name)
    shown = (pl.read_csv if name.endswith("csv") else pl.read_ndjson)(tmp_path / name)
    assert set(shown["output"].to_list()) == {"süß", "base64:/3s="}


def test_a_file_that_fails_is_not_there(world, half_done, tmp_path):
    """An object vanishes while the file is written: the old file stays as it was, and no half of a new one."""
    out = tmp_path / "out.csv"
    out.write_text("old")
    frame = scan_version(world.store, ObjectScanner(world.store), world.entry.spec, world.version, half_done)
    world.store.delete(half_done[0].outcome.result_key)
    with pytest.raises((OSError, UserError, pl.exceptions.PolarsError)):
        write_results(frame, out)
    assert out.read_text() == "old"
    assert sorted(item.name for item in tmp_path.glob("*out*")) == ["out.csv"]
    assert not list(tmp_path.glob(".*"))


def test_an_unknown_ending_is_refused(tmp_path):
    """The message says which there are."""
    with pytest.raises(UserError, match=r"\.parquet, \.csv, \.jsonl"):
        write_results(pl.LazyFrame({"a": [1]}), tmp_path / "out.xlsx")
