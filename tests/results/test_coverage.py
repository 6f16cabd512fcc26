"""Coverage counts what is stored: whatever is missing, doubled, foreign or damaged shows, with its name (I6, I1)."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_assets.domain.errors import ConservationBroken
from batch_assets.domain.plan import Plan
from batch_assets.domain.snapshot import Snapshot
from resources.registry import RegisteredVersion
from resources.results.coverage import CoverageReport, measure_coverage
from tests.results.world import World, make_spec, with_object, write_source


@pytest.fixture
def world(store, tmp_path) -> World:
    return World.build(store, tmp_path, refused=[1, 24])


def measure(world: World, duck, rows) -> CoverageReport:
    return measure_coverage(world.store, duck, world.entry, world.plan, world.refused_key, rows)


def test_a_whole_version_passes(world, duck):
    """Results, workers' dead letters and records refused at planning are the snapshot, across objects and shards."""
    rows = world.run(duck, dead={0: [4], 2: [0, 1]})
    report = measure(world, duck, rows)
    found = report.coverage
    assert (found.records, found.results, found.dead_letters, found.pending) == (25, 20, 5, 0)
    check = report.check(blocking=True)
    assert check.passed
    assert check.summary == "20 results + 5 dead letters = 25 records"
    assert json.loads(json.dumps(check.details)) == check.details, "details are plain JSON values"


def test_shards_that_are_not_done_are_pending(world, duck):
    """A leased shard's records are pending, whatever its staging holds."""
    rows = world.run(duck)
    rows[1] = world.row(world.plan.shards[1], None)
    found = measure(world, duck, rows).coverage
    assert (found.shards_missing, found.pending) == (1, 10)
    assert found.problems()[0] == "1 shards are not finished"


def test_a_missing_object_is_named(world, duck):
    """An outcome whose object was deleted: the shard counts as missing, and the message has the key."""
    rows = world.run(duck)
    key = rows[1].outcome.result_key
    world.store.delete(key)
    report = measure(world, duck, rows)
    assert report.coverage.shards_missing == 1
    assert key in report.check(blocking=True).summary


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:50] + b"\0" + data[51:], lambda _: b""])
def test_a_damaged_object_is_named(world, duck, damage):
    """Cut, one byte changed, empty: the digest tells, also where the Parquet would still read."""
    rows = world.run(duck, dead={1: [3]})
    for key in (rows[1].outcome.result_key, rows[1].outcome.dead_key):
        data = world.store.get(key)
        world.store.delete(key)
        world.store.put_if_absent(key, damage(data))
        report = measure(world, duck, rows)
        assert any(key in problem for problem in report.unreadable)
        check = report.check(blocking=False)
        assert not check.passed
        assert check.blocking, "a release that names it could not be read, so a gate that only warns blocks"
        world.store.delete(key)
        world.store.put_if_absent(key, data)
    assert measure(world, duck, rows).check(blocking=True).passed


def test_a_doubled_record_is_counted_and_named(world, duck):
    """Two shards with the same record: the sum is right and still it does not pass (I1)."""
    rows = world.run(duck)
    rows[0] = with_object(
        world, rows[0], world.results(0, world.open_rows(world.plan.shards[0]), 1, record_id="r000005")
    )
    report = measure(world, duck, rows)
    assert report.coverage.pending == 0
    assert report.coverage.duplicate_keys == 1
    assert report.examples["duplicate_keys"] == ("r000005",)


def test_ids_that_are_not_the_source_s_are_foreign(world, duck):
    """Answers of two records swapped: every count is right, only the source itself tells."""
    rows = world.run(duck)
    table = world.results(0, world.open_rows(world.plan.shards[0])).to_pylist()
    table[0]["record_id"], table[3]["record_id"] = table[3]["record_id"], table[0]["record_id"]
    swapped = world.results(0, []).from_pylist(table, schema=world.results(0, []).schema)
    rows[0] = with_object(world, rows[0], swapped)
    report = measure(world, duck, rows)
    assert report.coverage.foreign_keys == 2
    assert report.examples["foreign_keys"] == ("shard 0 row 0: r000004", "shard 0 row 4: r000000")
    assert report.coverage.duplicate_keys == 0


def test_rows_outside_of_the_plan_are_foreign(world, duck):
    """A row number past the shard's end, and another shard's object under this shard's name."""
    rows = world.run(duck)
    table = world.results(2, range(4)).to_pylist()
    table[0]["row"] = 5
    other = world.results(0, []).from_pylist(table, schema=world.results(0, []).schema)
    changed = [*rows[:2], with_object(world, rows[2], other)]
    found = measure(world, duck, changed).coverage
    assert (found.foreign_keys, found.pending) == (1, 1)
    moved = [rows[0], with_object(world, rows[1], world.results(2, range(4))), rows[2]]
    found = measure(world, duck, moved).coverage
    assert found.foreign_keys == 4
    assert found.results == 13


def test_a_row_with_a_result_and_a_dead_letter_is_counted(world, duck):
    """A refused record that was answered all the same, and a worker's dead letter beside a result."""
    rows = world.run(duck, dead={2: [0]})
    rows[2] = with_object(world, rows[2], world.results(2, range(5)))
    report = measure(world, duck, rows)
    assert report.coverage.both == 2
    assert set(report.examples["both"]) == {"r000020", "r000024"}
    assert "2 records have a result and a dead letter" in report.check(blocking=True).summary


def test_a_source_that_is_gone_is_named(world, duck, tmp_path):
    """Without the source nobody can say that the results are its records': not passed, and it says why."""
    rows = world.run(duck)
    (tmp_path / "source-1.parquet").unlink()
    check = measure(world, duck, rows).check(blocking=True)
    assert not check.passed
    assert "source-1.parquet" in check.summary


def test_a_source_that_changed_under_its_name_is_noticed(world, duck, tmp_path):
    """The source was overwritten after the snapshot: its ids are not the results' ids."""
    rows = world.run(duck)
    write_source(tmp_path, [13, 12], ids=[f"x{number}" for number in range(25)])
    assert measure(world, duck, rows).coverage.foreign_keys == 23


def test_integer_ids_are_compared_as_text(store, tmp_path, duck):
    """An id column of numbers gives ids of decimal text; the results are not foreign for that."""
    world = World.build(store, tmp_path, object_rows=[5])
    pq.write_table(pa.table({"record_id": [7, 8, 9, 10, 11]}), tmp_path / "source-0.parquet")
    numbered = replace(world, ids=("7", "8", "9", "10", "11"))
    assert measure(numbered, duck, numbered.run(duck)).check(blocking=True).passed


def test_rows_of_a_source_beyond_the_limit_do_not_count(store, tmp_path, duck):
    """A snapshot cut by `limit` takes the first rows of an object; later rows are nobody's."""
    world = World.build(store, tmp_path, object_rows=[10])
    item = replace(world.entry.snapshot.objects[0], rows=6)
    entry = RegisteredVersion(
        version=world.version,
        spec=make_spec(),
        snapshot=Snapshot(uri="", objects=(item,)),
        registered_at="",
    )
    piece = replace(world.plan.shards[0].slices[0], stop=6)
    shard = replace(world.plan.shards[0], slices=(piece,), records=6)
    short = World(store, entry, Plan(version=world.version, shards=(shard,)), world.ids, frozenset())
    rows = [short.row(shard, short.run_shard(duck, shard))]
    assert measure_coverage(store, duck, entry, short.plan, world.refused_key, rows).check(blocking=True).passed


def test_a_plan_with_a_gap_is_refused(world, duck):
    """Positions are sums over the plan, so a plan that skips rows is an error before anything is counted."""
    torn = replace(world.plan, shards=(world.plan.shards[0], world.plan.shards[2]))
    with pytest.raises(ConservationBroken, match="shard 2 does not begin"):
        measure_coverage(world.store, duck, world.entry, torn, world.refused_key, [])
    with pytest.raises(ConservationBroken, match="20 of the snapshot's 25"):
        measure_coverage(
            world.store, duck, world.entry, replace(world.plan, shards=world.plan.shards[:2]), world.refused_key, []
        )


@settings(max_examples=12, deadline=None)
@given(
    object_rows=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    shard_size=st.integers(3, 7),
    data=st.data(),
)
def test_any_finished_version_passes_and_any_lost_row_does_not(
    tmp_path_factory, duck, memory_store, object_rows, shard_size, data
):
    """However objects and shards cut each other: a full run passes; take one row away, and it is one short."""
    total = sum(object_rows)
    refused = data.draw(st.sets(st.integers(0, total - 1), max_size=total - 1))
    spec = make_spec(shard_size=shard_size)
    folder = tmp_path_factory.mktemp("source")
    world = World.build(memory_store(), folder, object_rows=object_rows, refused=refused, spec=spec)
    rows = world.run(duck)
    assert measure(world, duck, rows).check(blocking=True).passed
    victim = data.draw(st.sampled_from([shard for shard in world.plan.shards if world.open_rows(shard)]))
    rows[victim.index] = with_object(
        world, rows[victim.index], world.results(victim.index, world.open_rows(victim)[1:])
    )
    found = measure(world, duck, rows).coverage
    assert found.pending == 1
    assert not found.passed


def test_a_count_that_is_not_the_object_s_is_named(world, duck):
    """A release says how many rows its objects have, from the shard table: a number that is not true stops it."""
    rows = world.run(duck)
    rows[0] = replace(rows[0], outcome=replace(rows[0].outcome, results=99))
    check = measure(world, duck, rows).check(blocking=True)
    assert "has 9 rows, the shard table says 99" in check.summary
    assert not check.passed
