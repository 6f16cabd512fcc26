"""Compaction: fewer layers, the same rows, whatever dies on the way (I3, I10)."""

from __future__ import annotations

import tempfile

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batch_assets import reader
from batch_assets.domain.errors import ConservationBroken, ObjectDamaged, ReleaseRaced
from resources.duck import connect
from resources.releases.compact import compact
from resources.releases.log import ReleaseLog
from resources.releases.reader import scan_release
from resources.result_store.store import open_result_store
from resources.results.parquet import fetch_parquet
from resources.results.scan import ObjectScanner
from tests.releases.layers import NIGHT, NOON, SCHEMA, Night, answers, modelled, publish, put
from tests.releases.test_layers import NIGHTS, by_python, by_sql, shown
from tests.releases.test_readers import by_hand
from tests.results.interrupted import InterruptedStore
from tests.results.world import JOB

LATER = "2026-03-02T12:00:00Z"


def fold(store, duck, rows: int = 2):
    return compact(store, duck, JOB, rows_per_object=rows, published_at=LATER)


def rows_of(store, release) -> list[dict]:
    """Every column of a release's rows."""
    return scan_release(ObjectScanner(store), release).sort("record_id").collect().to_dicts()


@pytest.fixture
def store(tmp_path):
    return open_result_store(str(tmp_path / "store"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NIGHT, min_size=2, max_size=5), st.integers(1, 4))
def test_the_rows_are_the_same(duck, nights, rows):
    """Any layers: one layer with exactly the rows that readers saw, in objects of the size that was asked for."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_result_store(folder)
        before = publish(store, nights)
        done = fold(store, duck, rows)
        if len(before.layers) == 1:  # a night that changed nothing is no layer
            assert done is None
            return
        (layer,) = done.release.layers
        assert rows_of(store, done.release) == rows_of(store, before)
        assert shown(scan_release(ObjectScanner(store), done.release).collect()) == modelled(nights)
        assert [item.rows for item in layer.objects[:-1]] == [rows] * (len(layer.objects) - 1)
        assert done.release.rows == len(modelled(nights))


def test_every_reader_sees_the_same_rows(place, reader_duck):
    """On a folder and on S3, and the old release is there as it was."""
    before = publish(place.store, NIGHTS)
    expected = by_python(place)
    done = fold(place.store, reader_duck)
    assert by_python(place) == by_sql(reader_duck, place) == expected == modelled(NIGHTS)
    if place.s3 is None:
        assert shown(by_hand(place)) == expected
    old = reader.release(JOB, before.sequence, settings=place.settings).collect()
    assert shown(old) == expected
    assert done.release.reason == "compaction: 3 layers of release 3 in one"
    assert (done.release.version, done.release.compacts, done.release.base) == (before.version, 3, None)


def test_a_release_of_one_layer_is_left_alone(store, duck):
    """Before the first release, with one layer, and a second time: nothing to fold, nothing appended."""
    assert fold(store, duck) is None
    publish(store, NIGHTS)
    fold(store, duck)
    assert fold(store, duck) is None
    assert len(ReleaseLog(store, JOB).entries()) == 4


def test_tags_types_and_provenance_are_kept(store, duck):
    """Columns, their types, the mark of untrusted text, and each row's own version; the footer says what was folded."""
    publish(store, NIGHTS)
    (layer,) = fold(store, duck).release.layers
    tables = [fetch_parquet(store, item.key) for item in layer.objects]
    assert all(table.schema.equals(SCHEMA) for table in tables)
    assert all(table.schema.field("summary").metadata == SCHEMA.field("summary").metadata for table in tables)
    versions = {row["record_id"]: row["job_version"] for table in tables for row in table.to_pylist()}
    assert versions == {"a": "v-0", "e": "v-0", "d": "v-2"}
    footer = pq.read_schema(store.uri(layer.objects[0].key)).metadata
    assert footer[b"compacts"] == b"release 3 of tickets"
    assert footer[b"folds"] == b'["v-2","v-1","v-0"]'
    assert layer.folds == ("v-2", "v-1", "v-0")


def test_compacted_layers_are_folded_again(store, duck):
    """Nights after a compaction, and another one: the versions in it are named through both."""
    publish(store, NIGHTS)
    base = fold(store, duck).release
    night = Night({"f": "4"}, deleted=frozenset({"a"}))
    layer_of = publish_night(store, night, base.sequence)
    assert [layer.version for layer in layer_of.layers] == ["v-9", base.layers[0].version]
    done = fold(store, duck)
    assert shown(scan_release(ObjectScanner(store), done.release).collect()) == modelled([*NIGHTS, night])
    assert done.release.layers[0].folds == ("v-9", "v-2", "v-1", "v-0")


def publish_night(store, night: Night, base: int):
    from tests.releases.layers import put_layer

    layer = put_layer(store, "v-9", night)
    return ReleaseLog(store, JOB).publish("v-9", [layer], reason="", checks={}, published_at=NOON, base=base).release


@pytest.mark.parametrize("landed", [False, True])
def test_a_crash_anywhere_leaves_the_rows(tmp_path, duck, landed):
    """The process dies before or after each of its puts: readers see the same rows, and a second try ends it."""
    whole = open_result_store(str(tmp_path / "whole"))
    publish(whole, NIGHTS)
    expected = fold(whole, duck).release
    puts = len(expected.layers[0].objects) + 1
    for deaths in range(puts):
        inner = open_result_store(str(tmp_path / f"{deaths}"))
        publish(inner, NIGHTS)
        store = InterruptedStore(inner)
        (store.after_put if landed else store.before_put).extend([nothing] * deaths + [die])
        with pytest.raises(KeyboardInterrupt):
            fold(store, duck)
        assert shown(scan_release(ObjectScanner(inner), ReleaseLog(inner, JOB).current()).collect()) == modelled(NIGHTS)
        again = fold(store, duck)
        done = again.release if again else ReleaseLog(inner, JOB).current()
        assert done == expected
        assert len(inner.list(f"results/{JOB}/{done.layers[0].version}")) == puts - 1


def nothing() -> None:
    """Let a put pass."""


def die() -> None:
    raise KeyboardInterrupt


def test_a_release_in_between_stands(store, duck):
    """Somebody publishes or rolls back while objects are written: theirs is current, ours is not there."""
    publish(store, NIGHTS)
    torn = InterruptedStore(store)
    torn.before_put.append(lambda: ReleaseLog(store, JOB).rollback(1, reason="back", published_at=NOON))
    with pytest.raises(ReleaseRaced):
        fold(torn, duck)
    assert ReleaseLog(store, JOB).current().rolled_back_to == 1


def test_what_cannot_be_read_is_not_folded(store, duck):
    """A damaged object, or one of other columns, stops the compaction, and the release stays."""
    release = publish(store, NIGHTS)
    key = release.layers[1].objects[0].key
    store.delete(key)
    put(store, key, answers("v-1", [("b", "other")]))
    with pytest.raises(ObjectDamaged, match=key):
        fold(store, duck)
    store.delete(key)
    put(store, key, answers("v-1", [("b", "2")]).drop_columns(["tags"]))
    with pytest.raises((ObjectDamaged, ConservationBroken)):
        fold(store, duck)
    assert ReleaseLog(store, JOB).current() == release


def test_all_records_gone_is_an_empty_table(store, duck):
    """Everything was deleted: one object without rows, and readers still know the columns."""
    publish(store, [Night({"a": "1"}), Night({}, deleted=frozenset({"a"}))])
    release = fold(store, duck).release
    assert rows_of(store, release) == []
    assert [item.rows for item in release.layers[0].objects] == [0]


def test_many_layers_in_little_memory(tmp_path):
    """DuckDB is held to 64 MB; ten layers of 20,000 records, each half over the one before."""
    store = open_result_store(str(tmp_path / "store"))
    nights = [
        Night({f"r{number:07}": f"n{index}" for number in range(index * 10_000, index * 10_000 + 20_000)})
        for index in range(10)
    ]
    before = publish(store, nights)
    with connect(memory_limit="64MB", threads=1) as small:
        done = compact(store, small, JOB, rows_per_object=5_000, published_at=LATER)
    assert rows_of(store, done.release) == rows_of(store, before)
    assert len(done.release.layers[0].objects) == 22
