"""The release log: appended, never edited; of two publishers one wins (I3)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_assets.domain.errors import ObjectMissing, ReleaseRaced, UnknownVersion
from batch_assets.domain.release import Layer, Release, ReleasedObject
from resources.releases.log import Published, ReleaseLog
from tests.results.interrupted import InterruptedStore

JOB = "tickets"
NOON = "2026-03-01T12:00:00Z"


def layer(store, version: str, objects: int = 3) -> Layer:
    """A layer whose objects are there, and say which version they are of."""
    made = []
    for number in range(objects):
        key = f"results/{JOB}/{version}/shard={number:05d}.parquet"
        store.put_if_absent(key, version.encode())
        made.append(ReleasedObject(key=key, digest=f"sha256:{version}", rows=number))
    return Layer(version=version, objects=tuple(made))


def publish(log: ReleaseLog, store, version: str, *, at: str = NOON) -> Published:
    return log.publish(version, [layer(store, version)], reason="test", checks={"coverage": "passed"}, published_at=at)


@pytest.fixture
def store(memory_store):
    return memory_store()


@pytest.fixture
def log(store) -> ReleaseLog:
    return ReleaseLog(store, JOB)


def test_releases_are_numbered_from_one(log, store):
    """Entries come newest first, and the newest is current."""
    assert (log.entries(), log.current(), log.get(1)) == ([], None, None)
    first, second = publish(log, store, "v-1"), publish(log, store, "v-2")
    assert (first.appended, second.appended) == (True, True)
    assert log.entries() == [second.release, first.release]
    assert log.current() == second.release
    assert log.get(1) == first.release
    assert [entry.sequence for entry in log.entries()] == [2, 1]


def test_jobs_do_not_see_each_other(log, store):
    """A job whose name begins with another's has a log of its own."""
    publish(log, store, "v-1")
    assert ReleaseLog(store, "tick").entries() == []
    assert ReleaseLog(store, "tickets_2").entries() == []


def test_publishing_what_is_current_does_nothing(log, store):
    """A publish run that is started twice: the second says that it stood already."""
    first = publish(log, store, "v-1")
    again = publish(log, store, "v-1", at="2026-03-02T12:00:00Z")
    assert again == Published(release=first.release, appended=False)
    assert len(log.entries()) == 1


def test_an_older_version_may_be_published_again(log, store):
    """Only the current version is a no-op: v-1 after v-2 is a release of its own."""
    for version in ("v-1", "v-2", "v-1"):
        publish(log, store, version)
    assert [entry.version for entry in log.entries()] == ["v-1", "v-2", "v-1"]


def test_rollback_appends(log, store):
    """History stays: the log shows the bad release, and the rollback after it."""
    publish(log, store, "v-1")
    publish(log, store, "v-2")
    rolled = log.rollback(None, reason="bad", published_at=NOON)
    assert rolled.appended
    assert (rolled.release.version, rolled.release.sequence, rolled.release.rolled_back_to) == ("v-1", 3, 1)
    assert [entry.version for entry in log.entries()] == ["v-1", "v-2", "v-1"]
    assert log.rollback(2, reason="good after all", published_at=NOON).release.version == "v-2"
    assert not log.rollback(4, reason="it is", published_at=NOON).appended
    with pytest.raises(UnknownVersion, match="releases 1 to 4"):
        log.rollback(9, reason="", published_at=NOON)


def test_rollback_to_what_is_gone_is_refused(log, store):
    """Retention deleted an object of the older version: readers would break, so nothing is appended."""
    publish(log, store, "v-1")
    publish(log, store, "v-2")
    store.delete(f"results/{JOB}/v-1/shard=00001.parquet")
    with pytest.raises(ObjectMissing, match="shard=00001"):
        log.rollback(1, reason="bad", published_at=NOON)
    assert log.current().version == "v-2"


def test_a_publisher_that_comes_second_is_told(memory_store):
    """Another publisher appends between our look at the log and our put: theirs stands, ours is not there."""
    store = InterruptedStore(memory_store())
    layers = {version: layer(store, version) for version in ("v-1", "v-2")}
    ours, theirs = ReleaseLog(store, JOB), ReleaseLog(store, JOB)

    def append(log: ReleaseLog, version: str) -> Published:
        return log.publish(version, [layers[version]], reason="", checks={}, published_at=NOON)

    store.before_put.append(lambda: append(theirs, "v-2"))
    with pytest.raises(ReleaseRaced, match="release 1"):
        append(ours, "v-1")
    assert [entry.version for entry in ours.entries()] == ["v-2"]


def test_a_lost_answer_is_no_race(memory_store):
    """The same entry's bytes stand under the number: the put had worked, and its answer was lost."""
    store = InterruptedStore(memory_store())
    log = ReleaseLog(store, JOB)
    layers = [layer(store, "v-1")]
    entry = Release(sequence=1, job=JOB, version="v-1", layers=tuple(layers), reason="", published_at=NOON, checks={})
    store.before_put.append(lambda: log._append(entry))
    assert log.publish("v-1", layers, reason="", checks={}, published_at=NOON).release == entry


def test_of_many_publishers_one_wins(place):
    """Eight publishers at once, on real stores: one appends, the others raced or saw it standing; the log is whole."""
    store = place.store
    made = [layer(store, f"v-{number}", 1) for number in range(8)]
    barrier = threading.Barrier(8)

    def run(number: int) -> str:
        log = ReleaseLog(store, JOB)
        log.current()
        barrier.wait(30)
        try:
            log.publish(made[number].version, [made[number]], reason="", checks={}, published_at=f"{number}")
        except ReleaseRaced:
            return "raced"
        return made[number].version

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(run, range(8)))
    entries = ReleaseLog(store, JOB).entries()
    assert sorted(entry.version for entry in entries) == sorted(name for name in outcomes if name != "raced")
    assert [entry.sequence for entry in entries] == list(range(len(entries), 0, -1))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=12))
def test_the_log_only_grows(memory_store, steps):
    """Any sequence of publishing and rolling back: earlier entries stay, word for word, and the last one is current."""
    store = memory_store()
    log = ReleaseLog(store, JOB)
    history: list[Release] = []
    for is_publish, number in steps:
        try:
            done = (
                publish(log, store, f"v-{number}")
                if is_publish
                else log.rollback(number, reason="back", published_at=NOON)
            )
        except UnknownVersion:
            assert number > len(history)
            continue
        if done.appended:
            history.append(done.release)
        assert done.release == history[-1]
        assert log.entries() == history[::-1]
