"""Publishing: only what is whole and valid, decided from what is stored, in one append (I3, I6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batch_assets.domain.errors import BaseMoved, GateRefused, ReleaseRaced, UnknownVersion
from batch_assets.domain.spec import GatesSpec
from resources.registry import Registry
from resources.releases.log import Published, ReleaseLog
from resources.releases.publish import publish_version
from resources.releases.reader import scan_release
from resources.results.checks import run_checks
from resources.results.parquet import fetch_parquet
from resources.results.scan import ObjectScanner
from resources.shard_table.memory import MemoryShardTable
from tests.releases.layers import Night, put_layer, put_tombstones
from tests.results.interrupted import InterruptedStore
from tests.results.world import JOB, World, make_spec

NOON = "2026-03-01T12:00:00Z"


@pytest.fixture
def store(memory_store) -> InterruptedStore:
    return InterruptedStore(memory_store())


@pytest.fixture
def table() -> MemoryShardTable:
    return MemoryShardTable()


@pytest.fixture
def world(store, tmp_path, table) -> World:
    world = World.build(store, tmp_path, refused=[3])
    table.register(JOB, world.version, world.plan.shards)
    return world


def run(world: World, table: MemoryShardTable, duck, shards=None, **answer) -> None:
    """Answer shards through the shard table, as a worker does."""
    while lease := table.claim(world.version, "w", ttl_s=60, shards=shards):
        shard = world.plan.shards[lease.shard]
        table.complete(lease, world.run_shard(duck, shard, epoch=lease.epoch, **answer))


def publish(world: World, table: MemoryShardTable, duck, version: str | None = None) -> Published:
    return publish_version(
        store=world.store,
        registry=Registry(world.store),
        table=table,
        duck=duck,
        job=JOB,
        version=version or world.version,
        reason="test",
        published_at=NOON,
    )


def released(world: World) -> list[str]:
    return [entry.version for entry in ReleaseLog(world.store, JOB).entries()]


def test_a_whole_version_is_published(world, table, duck):
    """The release names every shard's object with digest and rows, and what the gates said."""
    run(world, table, duck)
    done = publish(world, table, duck)
    assert done.appended
    release = done.release
    assert (release.sequence, release.version, release.rows) == (1, world.version, 24)
    assert [item.rows for item in release.layers[0].objects] == [9, 10, 5]
    assert release.checks == {
        "coverage": "passed: 24 results + 1 dead letters = 25 records",
        "schema": "passed: 24 rows satisfy the output schema",
    }


def test_unfinished_shards_are_refused(world, table, duck):
    """A candidate with a shard to go is not published, and the message says how much is missing."""
    run(world, table, duck, shards=[0, 2])
    with pytest.raises(GateRefused, match="2 of 3 shards are done, 10 records are pending"):
        publish(world, table, duck)
    assert released(world) == []


def test_the_gate_looks_at_storage_itself(world, table, duck):
    """Everything was done and checked, then an object was lost: the publish run refuses, whatever was said before."""
    run(world, table, duck)
    rows = table.shards(world.version)
    checks = run_checks(
        store=world.store, registry=Registry(world.store), duck=duck, job=JOB, version=world.version, shard_rows=rows
    )
    assert [(check.name, check.passed, check.blocking) for check in checks] == [
        ("coverage", True, True),
        ("schema", True, True),
    ]
    key = rows[1].outcome.result_key
    world.store.delete(key)
    with pytest.raises(GateRefused, match=key):
        publish(world, table, duck)
    assert released(world) == []


def test_invalid_rows_are_refused(world, table, duck):
    """A stored answer that the schema forbids stops the version, with the rule and its count."""
    run(world, table, duck, category="invented")
    with pytest.raises(GateRefused, match=r"schema: 24 failures in 24 rows: category: enum \(24\)"):
        publish(world, table, duck)


def test_a_gate_that_warns_speaks_but_does_not_stop(store, tmp_path, table, duck):
    """`gates.schema: warn`: published, and the release's own log shows the failure."""
    spec = replace(make_spec(), gates=GatesSpec(schema="warn"))
    world = World.build(store, tmp_path, spec=spec)
    table.register(JOB, world.version, world.plan.shards)
    run(world, table, duck, score=7.0)
    assert publish(world, table, duck).release.checks["schema"].startswith("FAILED: 25 failures")


def test_publishing_twice_says_so(world, table, duck):
    """The second time nothing is checked and nothing appended."""
    run(world, table, duck)
    first = publish(world, table, duck)
    assert publish(world, table, duck) == Published(release=first.release, appended=False)
    assert released(world) == [world.version]


def test_an_unknown_version_is_refused(world, table, duck):
    """A mistyped version is a user's error."""
    with pytest.raises(UnknownVersion):
        publish(world, table, duck, version="v-nothing")


@pytest.mark.parametrize("landed", [False, True])
def test_a_crash_at_the_append_leaves_old_or_new(world, table, duck, landed):
    """The process dies before or after its one put: readers see the old release or the new one; a rerun ends it."""
    run(world, table, duck)

    def die() -> None:
        raise KeyboardInterrupt

    (world.store.after_put if landed else world.store.before_put).append(die)
    with pytest.raises(KeyboardInterrupt):
        publish(world, table, duck)
    assert released(world) == ([world.version] if landed else [])
    assert publish(world, table, duck).appended != landed
    assert released(world) == [world.version]


def test_two_publish_runs_race(world, table, duck):
    """Two runs publish the same version at once: one appends, the other is told, and the log has it once."""
    run(world, table, duck)

    def other() -> None:
        publish_version(
            store=world.store,
            registry=Registry(world.store),
            table=table,
            duck=duck,
            job=JOB,
            version=world.version,
            reason="the other one",
            published_at="2026-03-01T12:00:01Z",
        )

    world.store.before_put.append(other)
    with pytest.raises(ReleaseRaced):
        publish(world, table, duck)
    assert released(world) == [world.version]


def test_a_version_from_end_to_end_on_real_stores(place, tmp_path, table, duck, reader_duck):
    """Source, parts, merge, checks with the store's own DuckDB, publish, read: on a folder and on S3."""
    world = World.build(place.store, tmp_path, refused=[24])
    table.register(JOB, world.version, world.plan.shards)
    run(world, table, reader_duck)
    release = publish(world, table, reader_duck).release
    assert scan_release(ObjectScanner(place.store, place.s3), release).collect().height == 24


def delta(world: World, table: MemoryShardTable, duck, base: int, tombstones: str | None = None) -> Published:
    """Publish a world as a delta over a release."""
    return publish_version(
        store=world.store,
        registry=Registry(world.store),
        table=table,
        duck=duck,
        job=JOB,
        version=world.version,
        reason="night",
        published_at=NOON,
        base=base,
        tombstones_key=tombstones,
    )


def test_a_delta_lies_on_its_base(store, tmp_path, table, duck):
    """A night over the first 6 of 25 records: one is refused at planning, one dies, and a deleted one is hidden."""
    worlds = []
    for name, rows, refused in (("full", (13, 12), []), ("night", (6,), [2])):
        (tmp_path / name).mkdir()
        worlds.append(
            World.build(store, tmp_path / name, object_rows=rows, refused=refused, spec=make_spec(system=name))
        )
        table.register(JOB, worlds[-1].version, worlds[-1].plan.shards)
    full, night = worlds
    run(full, table, duck, summary="full")
    publish(full, table, duck)
    lease = table.claim(night.version, "w", ttl_s=60)
    table.complete(lease, night.run_shard(duck, night.plan.shards[0], epoch=1, dead_rows=[4], summary="night"))
    put_tombstones(store, "tombstones/1.parquet", ["r000024", "r000099"])
    release = delta(night, table, duck, 1, "tombstones/1.parquet").release
    assert (release.base, [layer.version for layer in release.layers]) == (1, [night.version, full.version])
    hidden = fetch_parquet(store, release.layers[0].hidden.key).column("record_id").to_pylist()
    assert hidden == ["r000002", "r000004", "r000024", "r000099"]
    assert release.layers[0].hidden.rows == 4
    assert delta(night, table, duck, 1, "tombstones/1.parquet") == Published(release=release, appended=False)


def test_a_delta_that_does_not_fit_is_not_even_checked(world, table, duck):
    """Its base is not current: refused before the checks read anything."""
    run(world, table, duck)
    publish(world, table, duck)
    ReleaseLog(world.store, JOB).publish("v-other", [], reason="", checks={}, published_at=NOON)
    with pytest.raises(BaseMoved, match=r"release 2 \(v-other\), not release 1"):
        delta(world, table, duck, 1)


def test_a_duplicate_that_is_answered_is_not_hidden(store, tmp_path, table, duck):
    """A record that stands twice in the source has one dead letter and one answer: its answer counts."""
    layer = put_layer(store, "v-1", Night({"a": "1"}, dead=frozenset({"a", "b"})))
    assert fetch_parquet(store, layer.hidden.key).column("record_id").to_pylist() == ["b"]
    assert put_layer(store, "v-2", Night({"a": "1"}, dead=frozenset({"a"}))).hidden is None
