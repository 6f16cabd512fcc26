"""Sweeping a store: what was decided is deleted, in an order in which a crash or a release in between does no harm."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from batch_assets.domain.errors import GateRefused
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.retention import DAY_S, Policy, Verdict
from resources.registry import Registry
from resources.releases.log import ReleaseLog
from resources.releases.publish import publish_version
from resources.releases.reader import scan_release
from resources.results.scan import ObjectScanner
from resources.retention.sweep import sweep
from resources.shard_table.memory import MemoryShardTable
from tests.releases.layers import NOON
from tests.results.interrupted import InterruptedStore
from tests.results.world import JOB, World, make_spec

ONE = Policy(keep_releases=1, keep_days=0, partial_days=7)


@dataclass
class Site:
    """A store with versions in it, and a clock that tests move."""

    store: InterruptedStore
    table: MemoryShardTable
    duck: duckdb.DuckDBPyConnection
    folder: Path
    now_s: float

    def run(self, name: str, *, finish: bool = True) -> World:
        """Register a version of another recipe, and answer its shards (or all but the last one)."""
        (self.folder / name).mkdir()
        world = World.build(self.store, self.folder / name, spec=make_spec(system=name))
        self.table.register(JOB, world.version, world.plan.shards)
        for shard in world.plan.shards if finish else world.plan.shards[:-1]:
            lease = self.table.claim(world.version, "w", ttl_s=60)
            self.table.complete(lease, world.run_shard(self.duck, shard, summary=name))
        return world

    def publish(self, world: World) -> None:
        """Publish a whole version."""
        publish_version(
            store=self.store,
            registry=Registry(self.store),
            table=self.table,
            duck=self.duck,
            job=JOB,
            version=world.version,
            reason="",
            published_at=NOON,
        )

    def sweep(self, policy: Policy = ONE, *, delete: bool = True) -> Verdict:
        """Sweep at the site's own time."""
        return sweep(self.store, Registry(self.store), self.table, JOB, policy, now_s=self.now_s, delete=delete)

    def standing(self) -> set[str]:
        """Every key."""
        return {item.key for item in self.store.list("")}

    def summaries(self) -> list[str]:
        """What readers of `current` see: the names of the worlds whose rows those are."""
        release = ReleaseLog(self.store, JOB).current()
        return scan_release(ObjectScanner(self.store), release).collect()["summary"].unique().to_list()


@pytest.fixture
def site(store: ObjectStore, duck, tmp_path) -> Site:
    """Forty days from now, so that everything that a test makes is old."""
    made = Site(InterruptedStore(store), MemoryShardTable(lambda: made.now_s), duck, tmp_path, time.time())
    return made


def later(site: Site, days: float = 40) -> None:
    site.now_s += days * DAY_S


def test_a_dry_run_changes_nothing(site):
    """What it says is what `delete` deletes."""
    old, new = site.run("old"), site.run("new")
    site.publish(old)
    site.publish(new)
    later(site)
    before = site.standing()
    said = site.sweep(delete=False)
    assert site.standing() == before
    assert site.table.counts(old.version) is not None
    done = site.sweep()
    assert done == said
    assert before - site.standing() == {item.key for item in done.doomed}
    assert sum(item.size_bytes for item in said.doomed) > 0


def test_what_is_read_stays_readable(site):
    """An older version goes with all that it had; the published one loses its staging, and a second sweep nothing."""
    old, new = site.run("old"), site.run("new")
    site.publish(old)
    site.publish(new)
    later(site)
    site.sweep()
    assert site.summaries() == ["new"]
    assert not [key for key in site.standing() if old.version in key]
    assert not [key for key in site.standing() if key.startswith("staging/")]
    assert site.table.counts(old.version) is None
    assert Registry(site.store).versions(JOB) == [(JOB, new.version)]
    assert site.sweep().doomed == ()


def test_a_version_that_is_swept_can_come_again(site):
    """The same input and recipe later: registered and planned anew, as if it had never been."""
    old, new = site.run("old", finish=False), site.run("new")
    later(site)
    site.sweep()
    assert site.table.counts(old.version) is None
    world = World.build(site.store, site.folder / "old", spec=make_spec(system="old"))
    site.table.register(JOB, world.version, world.plan.shards)
    assert world.version == old.version
    assert site.table.counts(old.version).pending == 25
    assert site.table.counts(new.version).done


def test_a_leased_shard_keeps_its_version(site):
    """Registered long ago, taken up a moment ago: nothing of it goes."""
    old = site.run("old", finish=False)
    site.run("new")
    later(site)
    assert site.table.claim(old.version, "w", ttl_s=600)
    before = site.standing()
    site.sweep()
    assert site.standing() == before


def test_a_shard_that_is_claimed_after_the_decision_keeps_its_version(site, monkeypatch):
    """The shard table refuses to forget it, so nothing of it is deleted."""
    old = site.run("old", finish=False)
    site.run("new")
    later(site)
    remove = site.table.remove

    def claim_first(version: str, **more) -> bool:
        site.table.claim(version, "w", ttl_s=600)
        return remove(version, **more)

    monkeypatch.setattr(site.table, "remove", claim_first)
    before = site.standing()
    verdict = site.sweep()
    assert verdict.versions[old.version] == "a worker holds a shard of it"
    assert site.standing() == before


def test_a_version_that_is_being_published_is_kept(site):
    """An old candidate's publication has begun, and a newer version made it no candidate: it is left alone."""
    old, new = site.run("old"), site.run("new")
    site.publish(new)
    later(site)
    site.store.before_put.append(site.sweep)  # the publisher's one put is its release
    site.publish(old)
    assert site.summaries() == ["old"]


def test_a_version_that_is_swept_is_not_published(site):
    """The sweep was faster: the publisher finds no finished shard, and says so."""
    old, new = site.run("old"), site.run("new")
    site.publish(new)
    later(site)
    site.table.remove(old.version, idle_s=0)
    with pytest.raises(GateRefused):
        site.publish(old)


def test_a_release_in_the_meantime_keeps_what_it_reads(site, monkeypatch):
    """Rolled back between the decision and the deletion: the log is read again, and the objects stay."""
    old, new = site.run("old"), site.run("new")
    site.publish(old)
    site.publish(new)
    later(site)
    remove = site.table.remove

    def roll_back_first(version: str, **more) -> bool:
        ReleaseLog(site.store, JOB).rollback(1, reason="back", published_at=NOON)
        return remove(version, **more)

    monkeypatch.setattr(site.table, "remove", roll_back_first)
    site.sweep()
    assert site.summaries() == ["old"]


class Torn:
    """A store that dies at its n-th deletion."""

    def __init__(self, store: InterruptedStore, deletions: int) -> None:
        self._store, self._left = store, deletions

    def __getattr__(self, name: str):
        return getattr(self._store, name)

    def delete(self, key: str) -> None:
        """Delete, or die."""
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        self._store.delete(key)


def test_a_crash_anywhere_is_mended_by_the_next_sweep(site):
    """After each deletion in turn: the published rows are there, no version is half visible, and the next goes on.

    What may stay of a version is what a crash left of its registration: some hundred bytes that nothing names.
    """
    old, new = site.run("old"), site.run("new")
    site.publish(old)
    site.publish(new)
    later(site)
    total = len(site.sweep(delete=False).doomed)
    registry = Registry(site.store)
    deaths = 0
    while site.sweep(delete=False).doomed:
        try:
            sweep(Torn(site.store, 1), registry, site.table, JOB, ONE, now_s=site.now_s, delete=True)
        except KeyboardInterrupt:
            deaths += 1
        assert site.summaries() == ["new"]
        for _, version in registry.versions(JOB):
            registry.read(JOB, version)
            registry.plan(JOB, version)
    assert total - 5 < deaths < total
    left = [key for key in site.standing() if old.version in key]
    assert all(key.startswith("registry/") for key in left)
