"""A deletion request: the record is nowhere any more, everything adds up, and a crash is mended by a rerun (I6)."""

from __future__ import annotations

import hashlib
import json

import polars as pl
import pytest

from batch_assets.domain.errors import ObjectMissing, RecordInWork
from batch_assets.domain.release import Layer
from resources.registry import Registry
from resources.releases.compact import compact
from resources.releases.log import ReleaseLog
from resources.releases.publish import publish_version
from resources.releases.reader import scan_release
from resources.results.audit import audit_version
from resources.results.checks import run_checks
from resources.results.scan import ObjectScanner
from resources.retention.forget import forget
from tests.releases.layers import NOON, put_tombstones
from tests.results.interrupted import InterruptedStore
from tests.results.world import JOB, World
from tests.retention.test_sweep import Site, Torn, site

__all__ = ["site"]  # the fixture
LATER = "2026-03-02T12:00:00+00:00"


def ask(site: Site, record_id: str, store=None):
    store = store or site.store
    return forget(store, Registry(store), site.table, site.duck, JOB, record_id, now_iso=LATER)


def holding(site: Site, record_id: str) -> list[str]:
    """Every stored object that has the record, and every key or JSON that has its id."""
    found = []
    for key in site.standing():
        data = site.store.get(key)
        if key.endswith(".parquet"):
            ids = pl.read_parquet(data, columns=["record_id"])["record_id"]
            found += [key] if record_id in ids.to_list() else []
        elif record_id.encode() in data or record_id in key:
            found.append(key)
    return found


def rows(site: Site) -> list[str]:
    release = ReleaseLog(site.store, JOB).current()
    return sorted(scan_release(ObjectScanner(site.store), release).collect()["record_id"].to_list())


def assert_adds_up(site: Site, world: World) -> None:
    registry = Registry(site.store)
    shard_rows = site.table.shards(world.version)
    refused = registry.refused_key(JOB, world.version)
    audit = audit_version(site.store, JOB, registry.plan(JOB, world.version), refused, shard_rows)
    assert audit.clean, audit.disagreements
    checks = run_checks(
        store=site.store, registry=registry, duck=site.duck, job=JOB, version=world.version, shard_rows=shard_rows
    )
    assert [check.summary for check in checks if not check.passed] == []


def test_a_result_is_gone_and_the_counts_add_up(site):
    """Results, staging: gone. Audit and gates are clean, because a nameless dead letter keeps the place."""
    world = site.run("a")
    site.publish(world)
    done = ask(site, "r000003")
    assert holding(site, "r000003") == []
    assert rows(site) == [f"r{number:06d}" for number in range(25) if number != 3]
    assert_adds_up(site, world)
    counts = site.table.counts(world.version)
    assert (counts.results, counts.dead_letters) == (24, 1)
    assert done.digest == hashlib.sha256(b"r000003").hexdigest()
    assert done.sources == (world.entry.snapshot.objects[0].data_uri,)
    release = ReleaseLog(site.store, JOB).current()
    assert (release.sequence, release.reason) == (2, f"forget: {done.digest[:12]}")
    (line,) = site.store.list(f"audit/{JOB}")
    said = json.loads(site.store.get(line.key))
    assert (said["record"], said["release"]) == (f"sha256:{done.digest}", 2)
    assert said["objects"] == done.rewritten


def test_again_changes_nothing(site):
    """No object holds it: nothing is written, not even an audit line."""
    site.publish(site.run("a"))
    ask(site, "r000003")
    before = site.standing()
    again = ask(site, "r000003")
    assert (again.rewritten, again.release) == ({}, None)
    assert site.standing() == before


def test_dead_letters_and_refused_records_lose_their_name(site):
    """A record that died, and one that planning refused: the rows stay as places without name and words."""
    (site.folder / "a").mkdir()
    world = World.build(site.store, site.folder / "a", refused=[7])
    site.table.register(JOB, world.version, world.plan.shards)
    for shard in world.plan.shards:
        lease = site.table.claim(world.version, "w", ttl_s=60)
        site.table.complete(lease, world.run_shard(site.duck, shard, dead_rows=[4]))
    site.publish(world)
    for name in ("r000004", "r000007"):
        ask(site, name)
        assert holding(site, name) == []
        assert_adds_up(site, world)
    assert len(ReleaseLog(site.store, JOB).entries()) == 1  # what readers see was not touched


def test_older_releases_become_unreadable_and_say_so(site):
    """The log is append-only, and a release that named the record's object names what is not there."""
    site.publish(site.run("a"))
    site.publish(site.run("b"))
    ask(site, "r000003")
    with pytest.raises(ObjectMissing, match="forget"):
        ReleaseLog(site.store, JOB).rollback(1, reason="", published_at=NOON)
    assert "r000003" not in rows(site)


def test_layers_hidden_records_and_compacted_objects(site):
    """A night over a full version hides a record, and another one is in both; then folded: gone from all of it."""
    full, night = site.run("a"), site.run("b")
    site.publish(full)
    put_tombstones(site.store, "tombstones/x.parquet", ["r000099"])
    publish_version(
        store=site.store,
        registry=Registry(site.store),
        table=site.table,
        duck=site.duck,
        job=JOB,
        version=night.version,
        reason="",
        published_at=NOON,
        base=1,
        tombstones_key="tombstones/x.parquet",
    )
    site.store.delete("tombstones/x.parquet")
    ask(site, "r000099")
    assert holding(site, "r000099") == []
    assert ReleaseLog(site.store, JOB).current().layers[0].hidden.rows == 0
    compact(site.store, site.duck, JOB, rows_per_object=10, published_at=NOON)
    ask(site, "r000003")
    assert holding(site, "r000003") == []
    release = ReleaseLog(site.store, JOB).current()
    assert isinstance(release.layers[0], Layer)
    assert release.layers[0].folds == (night.version, full.version)
    assert release.rows == len(rows(site)) == 24
    for world in (full, night):
        assert_adds_up(site, world)


def test_an_unfinished_version_with_the_record_is_refused(site):
    """Its committed parts hold the record: nothing is changed until it is finished."""
    world = site.run("a", finish=False)
    shard = world.plan.shards[-1]
    lease = site.table.claim(world.version, "w", ttl_s=60)
    world.run_shard(site.duck, shard, epoch=lease.epoch)
    before = site.standing()
    with pytest.raises(RecordInWork, match=world.version):
        ask(site, "r000024")
    assert site.standing() == before
    ask(site, "r000003")  # its shard is done
    assert holding(site, "r000003") == []


def test_a_crash_anywhere_is_mended_by_running_it_again(store, duck, tmp_path):
    """Before each put and each deletion in turn: readers see a whole release, and the rerun ends it."""
    for deaths in range(40):
        folder = tmp_path / str(deaths)
        folder.mkdir()
        site = crashed_site(folder, duck)
        world = site.run("a")
        site.publish(world)
        interrupted = InterruptedStore(Torn(site.store, deaths - 5) if deaths >= 5 else site.store)
        if deaths < 5:
            interrupted.before_put.extend([lambda: None] * deaths + [die])
        try:
            ask(site, "r000003", interrupted)
            ended = True
        except KeyboardInterrupt:
            ended = False
            assert len(rows(site)) in (24, 25) if deaths < 5 else len(rows(site)) == 24
        ask(site, "r000003")
        assert holding(site, "r000003") == []
        assert len(rows(site)) == 24
        assert_adds_up(site, world)
        if ended and deaths >= 5:
            return
    pytest.fail("it never came to an end")


def crashed_site(folder, duck) -> Site:
    from resources.result_store.store import open_result_store
    from resources.shard_table.memory import MemoryShardTable

    return Site(InterruptedStore(open_result_store(str(folder / "store"))), MemoryShardTable(), duck, folder, 0.0)


def die() -> None:
    raise KeyboardInterrupt
