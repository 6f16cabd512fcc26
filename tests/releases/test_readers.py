"""Three readers show the same rows, whole releases only, on a folder and on S3 (I3)."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import polars as pl
import pytest

from batch_assets import reader
from batch_assets.domain.errors import UnknownVersion
from batch_assets.domain.release import Layer, Release, ReleasedObject
from resources.duck import connect
from resources.releases.log import ReleaseLog
from resources.releases.publish import layer_of
from resources.releases.reader import scan_release
from resources.releases.view import view_sql
from resources.result_store.store import open_result_store
from resources.results.scan import ObjectScanner
from resources.settings import Settings
from tests.releases.conftest import Place
from tests.results.world import JOB, World, make_spec

NOON = "2026-03-01T12:00:00Z"
DOC = Path(__file__).parents[2] / "docs" / "reading.md"


def publish(place, version: str, *layers: Layer) -> Release:
    log = ReleaseLog(place.store, JOB)
    return log.publish(version, layers, reason="test", checks={}, published_at=NOON).release


def run_world(place, folder: Path, duck, system: str, *, object_rows=(13, 12), **answer) -> tuple[World, Layer]:
    folder.mkdir(exist_ok=True)
    world = World.build(place.store, folder, object_rows=object_rows, spec=make_spec(system=system))
    return world, layer_of(world.version, world.run(duck, **answer))


def by_view(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    return connection.sql(f"FROM {JOB}_current ORDER BY record_id").pl()


def script(place) -> str:
    """The view's script; what lets DuckDB in is for users' sessions, and the test's is in already."""
    text = view_sql(place.store, JOB, s3=place.s3, offline=True)
    return text[text.index("-- The current release") :]


def by_hand(place) -> pl.DataFrame:
    """Run the document's own snippet."""
    snippet = re.search(r"<!-- by hand -->\n```python\n(.*?)```", DOC.read_text(), re.DOTALL).group(1)
    names: dict[str, object] = {}
    exec(snippet.replace("STORE", repr(place.uri)).replace("support_tickets", JOB), names)  # noqa: S102
    return names["rows"].order("record_id").pl()


def test_all_readers_show_the_same_rows(place, tmp_path, duck, reader_duck):
    """One layer: Python, SQL and (on a folder) the document's snippet give one table, columns in the same order."""
    _, layer = run_world(place, tmp_path / "a", duck, "A")
    publish(place, "v-a", layer)
    frame = reader.current(JOB, settings=place.settings).sort("record_id").collect()
    assert frame.height == 25
    assert frame["record_id"].is_unique().all()
    reader_duck.execute(script(place))
    shown = by_view(reader_duck)
    assert shown.columns == frame.columns
    assert shown.equals(frame.cast(dict(shown.schema)))
    if place.s3 is None:
        assert by_hand(place).equals(shown)


def test_the_newest_layer_that_knows_a_record_wins(place, tmp_path, duck, reader_duck):
    """A backfill and two nights over ever fewer records: each record once, with its newest answer, in every reader."""
    _, backfill = run_world(place, tmp_path / "a", duck, "A", summary="backfill")
    _, monday = run_world(place, tmp_path / "b", duck, "B", object_rows=(12,), summary="monday")
    _, tuesday = run_world(place, tmp_path / "c", duck, "C", object_rows=(4,), summary="tuesday")
    publish(place, tuesday.version, tuesday, monday, backfill)
    expected = ["tuesday"] * 4 + ["monday"] * 8 + ["backfill"] * 13
    frame = reader.current(JOB, settings=place.settings).sort("record_id").collect()
    assert frame["record_id"].to_list() == [f"r{number:06d}" for number in range(25)]
    assert frame["summary"].to_list() == expected
    reader_duck.execute(script(place))
    assert by_view(reader_duck)["summary"].to_list() == expected
    if place.s3 is None:
        assert by_hand(place)["summary"].to_list() == expected


def test_a_frame_and_a_session_stay_with_their_release(place, tmp_path, duck, reader_duck):
    """Published after the frame was made and the script run: both go on showing theirs; asked again, they move on."""
    _, first = run_world(place, tmp_path / "a", duck, "A", summary="first")
    _, second = run_world(place, tmp_path / "b", duck, "B", object_rows=(5, 6), summary="second")
    publish(place, first.version, first)
    frame = reader.current(JOB, settings=place.settings)
    reader_duck.execute(script(place))
    publish(place, second.version, second)
    assert frame.select("summary").unique().collect()["summary"].to_list() == ["first"]
    assert by_view(reader_duck)["summary"].unique().to_list() == ["first"]
    settings_only = script(place).partition("CREATE OR REPLACE VIEW")[0]
    reader_duck.execute(settings_only)  # the view looks its variables up at each query
    assert by_view(reader_duck).height == 11
    assert by_view(reader_duck)["summary"].unique().to_list() == ["second"]
    assert reader.current(JOB, settings=place.settings).collect().height == 11
    assert reader.release(JOB, 1, settings=place.settings).collect().height == 25
    assert [item.sequence for item in reader.releases(JOB, settings=place.settings)] == [2, 1]


def test_one_layer_is_a_plain_scan(place, tmp_path, duck, reader_duck):
    """A filter and a projection go down into the Parquet scan; the join for layers is not even planned."""
    _, layer = run_world(place, tmp_path / "a", duck, "A")
    publish(place, layer.version, layer)
    reader_duck.execute(script(place))
    plan = reader_duck.sql(f"EXPLAIN SELECT category FROM {JOB}_current WHERE score > 0.9").fetchall()[0][1]
    assert "JOIN" not in plan
    assert "score>0.9" in plan.replace(" ", "")


def test_before_the_first_release(place, reader_duck):
    """Every reader says that there is no release, not that a file is missing."""
    with pytest.raises(UnknownVersion, match="no release yet"):
        reader.current(JOB, settings=place.settings)
    with pytest.raises(UnknownVersion, match="no release 3"):
        reader.release(JOB, 3, settings=place.settings)
    with pytest.raises(duckdb.Error, match=f"job {JOB} has no release"):
        reader_duck.execute(script(place))


def test_the_environment_says_where_the_store_is(tmp_path, duck, monkeypatch, memory_store):
    """Without settings, the reader finds the store as every other process does."""
    monkeypatch.setenv("BATCH_ASSETS_DATA_DIR", str(tmp_path))
    with pytest.raises(UnknownVersion, match=str(tmp_path)):
        reader.current(JOB)


def test_the_s3_script_holds_no_secret(s3_store, s3_config):
    """It begins with what lets DuckDB in, from the reader's own credentials."""
    text = view_sql(s3_store, JOB, s3=s3_config)
    assert text.startswith("INSTALL httpfs")
    assert "credential_chain" in text
    assert s3_config.aws_secret_access_key not in text
    assert s3_config.aws_access_key_id not in text


def test_awkward_names_are_names(tmp_path, duck):
    """A store whose path has quotes and pattern characters: every reader reads it, and nothing beside it."""
    uri = str(tmp_path / "it's; [1] *")
    place = Place(uri, open_result_store(uri), None, Settings(result_store=uri))
    _, layer = run_world(place, tmp_path / "a", duck, "A")
    publish(place, layer.version, layer)
    with connect(threads=1) as connection:
        connection.execute(script(place))
        assert by_view(connection).height == 25
    assert reader.current(JOB, settings=place.settings).collect().height == 25
    assert by_hand(place).height == 25


def test_readers_never_see_a_mix(place, tmp_path, duck):
    """While one thread publishes and rolls back, every frame and every view query shows one version, whole (I3)."""
    layers = [run_world(place, tmp_path / name, duck, name, object_rows=rows, summary=name)[1] for name, rows in SIZES]
    sizes = {name: sum(rows) for name, rows in SIZES}
    publish(place, layers[0].version, layers[0])
    stop = threading.Event()

    def write() -> int:
        log = ReleaseLog(place.store, JOB)
        for number in range(12):
            if number % 3 == 2:
                log.rollback(None, reason="back", published_at=NOON)
            else:
                publish(place, layers[number % 2].version, layers[number % 2])
        stop.set()
        return len(log.entries())

    def read_frames() -> set[str]:
        seen: set[str] = set()
        log, scanner = ReleaseLog(place.store, JOB), ObjectScanner(place.store, place.s3)
        for _ in range(200):
            frame = scan_release(scanner, log.current()).select("summary").collect()
            (name,) = frame["summary"].unique().to_list()
            assert frame.height == sizes[name]
            seen.add(name)
            if stop.is_set():
                break
        return seen

    def read_view() -> set[str]:
        seen: set[str] = set()
        with connect(place.s3, threads=1) as connection:
            for _ in range(200):
                connection.execute(script(place))
                ((name, rows),) = connection.sql(f"SELECT summary, count(*) FROM {JOB}_current GROUP BY ALL").fetchall()
                assert rows == sizes[name]
                seen.add(name)
                if stop.is_set():
                    break
        return seen

    with ThreadPoolExecutor(3) as pool:
        written, frames, views = pool.submit(write), pool.submit(read_frames), pool.submit(read_view)
        assert frames.result(300) <= sizes.keys()
        assert views.result(300) <= sizes.keys()
        assert written.result(300) > 6


SIZES = (("A", (13, 12)), ("B", (5, 6)))


def test_layers_of_many_objects_keep_one_row_a_record(place, tmp_path, duck):
    """The anti-join is on record ids, so a layer may know records in any order and of any shard."""
    _, old = run_world(place, tmp_path / "a", duck, "A", summary="old")
    _, new = run_world(place, tmp_path / "b", duck, "B", object_rows=(15,), summary="new")
    picked = Layer(version=new.version, objects=(new.objects[1],))  # records 10 to 14
    items = (ReleasedObject(key=item.key, digest=item.digest, rows=item.rows) for item in old.objects[::-1])
    found = publish(place, new.version, picked, Layer(version=old.version, objects=tuple(items)))
    frame = scan_release(place.scanner, found).sort("record_id").collect()
    assert frame["summary"].to_list() == ["old"] * 10 + ["new"] * 5 + ["old"] * 10
