"""Layers: the newest one that knows a record wins, and a hidden record is known (I3, section 10 of the design)."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batch_assets import reader
from batch_assets.domain.errors import BaseMoved, ReleaseRaced
from batch_assets.domain.release import Layer, Release, stacked
from resources.duck import connect
from resources.releases.log import ReleaseLog
from resources.releases.reader import scan_release
from resources.result_store.store import open_result_store
from resources.results.scan import ObjectScanner
from resources.settings import Settings
from tests.releases.conftest import Place
from tests.releases.layers import NIGHT, NOON, Night, modelled, publish, put_layer
from tests.releases.test_readers import by_hand, by_view, script
from tests.results.interrupted import InterruptedStore
from tests.results.world import JOB


def shown(frame) -> dict[str, str]:
    """A reader's rows; each record once."""
    rows = dict(frame.select("record_id", "summary").iter_rows())
    assert len(rows) == frame.height
    return rows


def by_python(place) -> dict[str, str]:
    return shown(reader.current(JOB, settings=place.settings).collect())


def by_sql(connection, place) -> dict[str, str]:
    connection.execute(script(place))
    return shown(by_view(connection))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NIGHT, min_size=1, max_size=6), st.data())
def test_three_readers_are_a_dict(nights, data):
    """Any nights of answers, dead letters and deletions, versions that come again among them: one dict, three readers.

    A version that comes again has the same records, answers and dead letters, and its own deletions.
    """
    same = data.draw(st.lists(st.integers(0, len(nights) - 1), min_size=len(nights), max_size=len(nights)))
    firsts = [min(index, number) for number, index in enumerate(same)]
    nights = [
        replace(nights[first], deleted=night.deleted - nights[first].answers.keys())
        for night, first in zip(nights, firsts, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, open_result_store(folder), None, Settings(result_store=folder))
        release = publish(place.store, nights, [f"v-{first}" for first in firsts])
        expected = modelled(nights)
        assert by_python(place) == expected
        with connect(threads=1) as connection:
            assert by_sql(connection, place) == expected
        assert shown(by_hand(place)) == expected
        assert len({layer.version for layer in release.layers if layer.objects}) == len(
            [layer for layer in release.layers if layer.objects]
        )


NIGHTS = [
    Night({"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}),
    Night({"b": "2"}, dead=frozenset({"c"}), deleted=frozenset({"d"})),
    Night({"d": "3"}, dead=frozenset({"b"})),
]


def test_a_changed_record_without_a_result_shows_no_old_answer(place, reader_duck):
    """On a folder and on S3: c died, d was deleted and came back, b died after its second answer."""
    release = publish(place.store, NIGHTS)
    expected = {"a": "1", "d": "3", "e": "1"}
    assert by_python(place) == by_sql(reader_duck, place) == expected
    if place.s3 is None:
        assert shown(by_hand(place)) == expected
    assert [layer.hidden.rows if layer.hidden else 0 for layer in release.layers] == [1, 2, 0]
    assert [entry.base for entry in ReleaseLog(place.store, JOB).entries()] == [2, 1, None]


def test_filters_go_down_into_the_backfill(place):
    """Layers cost an anti-join; the filter is still the scan's own in the newest and the largest one.

    A night in between is scanned once for its rows and its ids, and filtered after that.
    """
    release = publish(place.store, NIGHTS)
    plan = scan_release(place.scanner, release).filter(summary="1").select("record_id").explain()
    assert plan.count("SELECTION") == 2
    assert "SELECTION" in plan[plan.index("PLAN 2") :]
    assert "5/5 COLUMNS" not in plan
    assert "*/5 COLUMNS" not in plan


def test_a_night_of_deletions_alone_has_no_objects(place, reader_duck):
    """No record was new or changed: the layer is its hidden records."""
    release = publish(place.store, [*NIGHTS[:1], Night({}, deleted=frozenset({"a"}))])
    assert release.layers[0].objects == ()
    assert by_python(place) == by_sql(reader_duck, place) == dict.fromkeys("bcde", "1")


def test_two_nights_of_deletions_are_two_releases(memory_store):
    """Both have the same (empty) version: the base tells them apart, and the same night twice is one release."""
    store = memory_store()
    log = ReleaseLog(store, JOB)
    first = publish(store, NIGHTS[:1])

    def delete(name: str, base: int) -> bool:
        layer = put_layer(store, "v-empty", Night({}, deleted=frozenset({name})), empty=False)
        return log.publish("v-empty", [layer], reason="", checks={}, published_at=NOON, base=base).appended

    assert [delete("a", 1), delete("a", 1), delete("b", 2), delete("b", 2)] == [True, False, True, False]
    assert [layer.hidden is not None for layer in log.current().layers] == [True, True, False]
    assert log.get(1) == first


def test_a_release_from_before_hidden_records_loads():
    """Manifests that were written without the new keys mean what they meant."""
    release = Release(
        sequence=1,
        job=JOB,
        version="v",
        layers=(Layer(version="v", objects=()),),
        reason="",
        published_at=NOON,
        checks={},
    )
    value = release.to_json()
    for name in ("base", "compacts"):
        del value[name]
    value["layers"] = [{"version": "v", "objects": []}]
    assert Release.from_json(value) == release


def test_a_release_with_hidden_records_survives_json(memory_store):
    """`from_json` gives back what `to_json` said."""
    release = publish(memory_store(), NIGHTS)
    assert Release.from_json(release.to_json()) == release


def test_a_delta_whose_base_moved_is_refused(memory_store):
    """Somebody published in between: the delta says what changed since a release that is not current."""
    store = memory_store()
    log = ReleaseLog(store, JOB)
    publish(store, NIGHTS[:2])
    layer = put_layer(store, "v-late", NIGHTS[2])
    with pytest.raises(BaseMoved, match=r"release 2 \(v-1\), not release 1"):
        log.publish("v-late", [layer], reason="", checks={}, published_at=NOON, base=1)
    with pytest.raises(BaseMoved, match="nothing, not release 1"):
        ReleaseLog(memory_store(), JOB).publish("v", [layer], reason="", checks={}, published_at=NOON, base=1)
    assert log.current().sequence == 2


def test_a_delta_fits_a_compaction_of_its_base(memory_store):
    """The rows are the base's; the delta lies on the compacted layers. After a rollback it would not fit."""
    store = memory_store()
    log = ReleaseLog(store, JOB)
    base = publish(store, NIGHTS[:2])
    folded = put_layer(store, "c-1", Night({"a": "1", "b": "2", "e": "1"}))
    for sequence in (2, 3):
        old = log.current()
        log.succeed(old, [folded], reason="compaction", published_at=NOON, compacts=sequence)
    layer = put_layer(store, "v-2", NIGHTS[2])
    done = log.publish("v-2", [layer], reason="", checks={}, published_at=NOON, base=base.sequence).release
    assert (done.layers, done.base) == ((layer, folded), base.sequence)
    log.rollback(1, reason="", published_at=NOON)
    with pytest.raises(BaseMoved):
        log.publish("v-3", [replace(layer, version="v-3")], reason="", checks={}, published_at=NOON, base=done.sequence)


def test_of_two_deltas_on_one_base_one_is_told(memory_store):
    """The other one appends between our look and our put: ours is not there."""
    store = InterruptedStore(memory_store())
    log = ReleaseLog(store, JOB)
    publish(store, NIGHTS[:1])
    ours, theirs = put_layer(store, "v-ours", NIGHTS[1]), put_layer(store, "v-theirs", NIGHTS[2])

    def append(version: str, layer: Layer) -> None:
        log.publish(version, [layer], reason="", checks={}, published_at=NOON, base=1)

    store.before_put.append(lambda: append("v-theirs", theirs))
    with pytest.raises(ReleaseRaced):
        append("v-ours", ours)
    assert [entry.version for entry in log.entries()] == ["v-theirs", "v-0"]


def test_a_version_that_comes_again_has_its_objects_once():
    """Records that went back to what they were: the older layer keeps only what it hides, or goes."""
    release = Release(sequence=1, job=JOB, version="v", layers=(), reason="", published_at="", checks={})
    assert release.rows == 0
    old = Layer(version="v-1", objects=(), hidden=None)
    assert stacked(Layer(version="v-1", objects=()), [old]) == (Layer(version="v-1", objects=()),)


def test_one_layer_is_a_plain_scan_for_polars(place):
    """No join where there is nothing to hide, even if the layer has a list."""
    release = publish(place.store, NIGHTS)
    alone = replace(release, layers=release.layers[:1])
    assert "JOIN" not in scan_release(ObjectScanner(place.store, place.s3), alone).explain()
