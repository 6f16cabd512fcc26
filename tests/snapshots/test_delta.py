"""A delta: a snapshot like any other, and with the base it is as good as a full run over the new source."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.errors import ObjectDamaged, SnapshotChanged
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import JobSpec, PromptSpec, version_name
from resources.flow import Delta, NoDelta, keep_contents, make_delta, read_delta, register, source_of
from resources.planning.planner import plan_version
from resources.planning.tokens import ByteCounter
from resources.platform import Platform
from resources.settings import Settings
from resources.snapshots import delta_objects
from resources.snapshots.read import SnapshotReader
from tests.fixtures.sources import SourceFolder, job_spec
from tests.snapshots.test_diff import FILES, FORMATS, Row, a_folder, model, write

BASE = "v-000000000000"


def spec_of(shard_size: int = 3) -> JobSpec:
    """A job whose prompt shows two of three columns."""
    spec = job_spec("source", shard_size=shard_size, input_tokens_max=20, carry=("lang", "label"))
    return replace(spec, prompt=PromptSpec(system="Sort it.", user="{lang}: {text}"))


def open_platform(sources: SourceFolder) -> Platform:
    """A platform whose result store is the one that the sources are converted into."""
    data = sources.folder.parent
    return Platform.open(Settings(data_dir=data, result_store=str(data / "store")))


def outcome(spec: JobSpec, snapshot: Snapshot) -> tuple[dict[str, tuple[str, str]], pl.DataFrame]:
    """Return what the workers would be asked, by id, and the records refused at planning."""
    planned = plan_version(spec, snapshot, tokens=ByteCounter(), threads=1)
    refused = pl.read_parquet(io.BytesIO(planned.refused))
    reader = SnapshotReader(snapshot, spec.input.columns)
    asked = {}
    for shard in planned.plan.shards:
        skip = frozenset(refused.filter(pl.col("shard") == shard.index)["row"].to_list())
        asked |= {row.record_id: (row.text, row.carry[0] or "") for row in reader.read_shard(shard, skip=skip)}
    return asked, refused


def tombstones(platform: Platform, delta: Delta) -> list[str]:
    """Return the ids that are gone."""
    data = platform.store.get(delta.tombstones_key)
    assert digest_of_bytes(data) == delta.tombstones_digest
    found: list[str] = pl.read_parquet(io.BytesIO(data))["record_id"].to_list()
    assert delta.tombstones == len(found)
    return found


@settings(max_examples=25, deadline=None)
@given(old=FILES, new=FILES, endings=st.tuples(st.sampled_from(FORMATS), st.sampled_from(FORMATS)))
def test_base_and_delta_are_a_full_run(old: list[list[Row]], new: list[list[Row]], endings: tuple[str, str]) -> None:
    """For every record, whatever it was: the delta's answer, or no answer any more, or the base's, which still holds.

    What the delta knows (a result or a dead letter) and the tombstones hide what the base said.
    """
    with a_folder() as sources:
        empty = Snapshot(uri="nothing", objects=())
        before = write(sources, "old", old, endings[0]) or empty
        after = write(sources, "new", new, endings[1]) or empty
        spec, platform = spec_of(), open_platform(sources)
        made = make_delta(platform, spec, before, after, base=BASE)
        base_answers, _ = outcome(spec, before)
        full_answers, full_refused = outcome(spec, after)
        if isinstance(made, NoDelta):
            assert not made.refused
            assert base_answers == full_answers
            return
        answers, refused = outcome(spec, made.snapshot)
        hidden = {*tombstones(platform, made), *refused["record_id"].to_list(), *answers}
        merged = {name: said for name, said in base_answers.items() if name not in hidden} | answers
        assert merged == full_answers
        # Each row without a usable id gets its dead letter anew, with the class that a full run gives it.
        loose = ("missing_id", "duplicate_id", "conflicting_id", "unreadable", "invalid_id")
        for name in loose:
            assert refused.filter(failure=name).height == full_refused.filter(failure=name).height


def two_days(sources: SourceFolder, ending: str = "jsonl") -> tuple[Snapshot, Snapshot]:
    """Return a day and the next: a changes, b stays, c goes, d comes; two rows share an id, one has none."""
    loose = [Row("twice", "1"), Row("twice", "2"), Row(None, "x")]
    old = write(sources, "old", [[Row("a", "1"), Row("b", "1")], [Row("c", "1"), *loose]], ending)
    new = write(sources, "new", [[Row("b", "1"), Row("a", "2")], [Row("d", "1"), *loose]], ending)
    assert old
    assert new
    return old, new


def test_the_manifest_names_everything(sources: SourceFolder) -> None:
    """What was compared with what, the counts, what is gone; and the whole source, for the next night."""
    platform, (old, new) = open_platform(sources), two_days(sources)
    delta = make_delta(platform, spec_of(), old, new, base=BASE)
    assert isinstance(delta, Delta)
    assert (delta.base, delta.source, delta.snapshot.rows) == (BASE, new, 5)
    assert tombstones(platform, delta) == ["c"]
    assert read_delta(platform.store, delta.snapshot) == delta
    assert source_of(platform.store, delta.snapshot) == new
    assert source_of(platform.store, new) == new
    assert read_delta(platform.store, new) is None


@pytest.mark.parametrize("ending", FORMATS)
def test_a_dead_letter_still_says_where_its_record_came_from(sources: SourceFolder, ending: str) -> None:
    """The object, and the line where the source has lines; the row in the object is a column of the delta's own."""
    platform, (old, new) = open_platform(sources), two_days(sources, ending)
    delta = make_delta(platform, spec_of(), old, new, base=BASE)
    assert isinstance(delta, Delta)
    keys = [item.key for item in delta.snapshot.objects]
    assert keys == [f"0.{ending}#delta", f"1.{ending}#delta", "delta"]
    rows = pl.read_parquet(delta.snapshot.objects[1].data_uri)
    assert rows["_object_row"].to_list() == [0, 1, 2, 3]
    _, refused = outcome(spec_of(), delta.snapshot)
    (reason,) = refused.filter(record_id="twice", object_row=1)["reason"].to_list()
    line = {"jsonl": "line 3 of 1.jsonl", "csv": "line 4 of 1.csv", "parquet": "row 2 of 1.parquet#delta"}[ending]
    assert reason == f"the same id with other content at {line}"


def test_the_same_input_gives_the_same_delta(sources: SourceFolder) -> None:
    """Another store, a second time, after a crash before the manifest: the same digests, and nothing is in the way."""
    (old, new), spec = two_days(sources), spec_of()
    platform = open_platform(sources)
    first = make_delta(platform, spec, old, new, base=BASE)
    assert isinstance(first, Delta)
    standing = [item.key for item in platform.store.list("snapshots")]
    assert make_delta(platform, spec, old, new, base=BASE) == first
    platform.store.delete(first.manifest_key)
    assert make_delta(platform, spec, old, new, base=BASE) == first
    assert [item.key for item in platform.store.list("snapshots")] == standing
    elsewhere = Platform.open(Settings(data_dir=sources.folder.parent / "other"))
    other = make_delta(elsewhere, spec, old, new, base=BASE)
    assert isinstance(other, Delta)
    assert other.snapshot.digest == first.snapshot.digest
    assert other.tombstones_digest == first.tombstones_digest


def test_what_is_compared_is_in_the_name(sources: SourceFolder) -> None:
    """Another base, another prompt, another direction: another delta, and so another version."""
    (old, new), spec, platform = two_days(sources), spec_of(), open_platform(sources)
    other_prompt = replace(spec, prompt=PromptSpec(system="Sort it.", user="{text}"))
    made = [
        make_delta(platform, spec, old, new, base=BASE),
        make_delta(platform, spec, old, new, base="v-111111111111"),
        make_delta(platform, other_prompt, old, new, base=BASE),
        make_delta(platform, spec, new, old, base=BASE),
    ]
    names = [version_name(spec, delta.snapshot.digest) for delta in made if isinstance(delta, Delta)]
    assert len(set(names)) == 4


def test_a_night_of_nothing_but_deletions(sources: SourceFolder) -> None:
    """No rows to answer, and still a delta of its own, with its tombstones: two such nights are two versions."""
    days = [write(sources, str(day), [[Row(str(n), "x") for n in range(day, 5)]], "csv") for day in range(3)]
    platform, names = open_platform(sources), []
    for old, new in ((days[0], days[1]), (days[1], days[2])):
        assert old
        assert new
        delta = make_delta(platform, spec_of(), old, new, base=BASE)
        assert isinstance(delta, Delta)
        assert delta.snapshot.rows == 0
        assert len(tombstones(platform, delta)) == 1
        done = register(platform, spec_of(), delta.snapshot)
        assert done.new
        assert done.plan.shards == ()
        names.append(done.version)
    assert len(set(names)) == 2


def test_nothing_changed(sources: SourceFolder) -> None:
    """The same rows in another order and another format are the same source."""
    rows = [Row("a", "1"), Row("b", "2"), Row(None, "x"), Row("twice", "1"), Row("twice", "1")]
    old = write(sources, "old", [rows], "jsonl")
    new = write(sources, "new", [rows[3:], rows[:3]], "parquet")
    assert old
    assert new
    platform = open_platform(sources)
    made = make_delta(platform, spec_of(), old, new, base=BASE)
    assert isinstance(made, NoDelta)
    assert (made.refused, made.reason) == (
        False,
        "nothing changed: 2 records as before and the same 3 rows without a usable id",
    )


def test_a_snapshot_that_lost_too_much_is_refused_and_leaves_nothing(sources: SourceFolder) -> None:
    """Half of the records gone is an accident, until somebody says otherwise; then the guard can be raised."""
    old = write(sources, "old", [[Row(str(n), "x") for n in range(10)]], "csv")
    new = write(sources, "new", [[Row(str(n), "y") for n in range(5)]], "csv")
    assert old
    assert new
    platform = open_platform(sources)
    before = platform.store.list("")
    made = make_delta(platform, spec_of(), old, new, base=BASE, lost_share_max=0.2)
    assert isinstance(made, NoDelta)
    assert made.refused
    assert "lost 5 of 10 records (50.0%" in made.reason
    assert platform.store.list("") == before
    assert isinstance(make_delta(platform, spec_of(), old, new, base=BASE, lost_share_max=0.5), Delta)
    again = make_delta(platform, spec_of(), old, new, base=BASE, lost_share_max=0.2)
    assert isinstance(again, NoDelta)
    assert again.refused


def test_a_large_delta_is_cut(sources: SourceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects and row groups are bounded, and every row is there once, in order."""
    monkeypatch.setattr(delta_objects, "CHUNK_BYTES", 20_000)
    monkeypatch.setattr(delta_objects, "GROUP_BYTES", 4_000)
    monkeypatch.setattr("resources.snapshots.read.BATCH_ROWS_MAX", 7)
    monkeypatch.setattr("resources.snapshots.diff._BATCH_ROWS", 5)
    rows = [Row(str(number), f"{number}:" + "x" * 100) for number in range(1_000)]
    old = write(sources, "old", [rows], "jsonl")
    new = write(sources, "new", [[row._replace(text="y" * 100) if i % 3 else row for i, row in enumerate(rows)]], "csv")
    assert old
    assert new
    delta = make_delta(open_platform(sources), spec_of(), old, new, base=BASE)
    assert isinstance(delta, Delta)
    keys = [item.key for item in delta.snapshot.objects]
    assert keys == ["0.csv#delta", *[f"0.csv#delta{n}" for n in range(1, len(keys) - 1)], "delta"]
    assert len(keys) > 4
    spec = replace(spec_of(), limits=replace(spec_of().limits, input_tokens_max=200))
    assert list(outcome(spec, delta.snapshot)[0]) == [str(number) for number in range(1_000) if number % 3]
    assert sum(item.size_bytes for item in delta.snapshot.objects) > 666 * 100


def test_a_table_that_is_written_over_every_night(sources: SourceFolder) -> None:
    """The old files are gone when the new ones are there: what was kept of them is what is compared."""
    spec, platform = spec_of(), open_platform(sources)
    nights = [
        [Row("a", "1"), Row("b", "1"), Row("twice", "1"), Row("twice", "1"), Row(None, "x")],
        [Row("a", "2"), Row("b", "1"), Row("c", "1"), Row(None, "x")],
        [Row("c", "2"), Row("b", "1")],
    ]
    taken: list[Snapshot] = []
    for number, rows in enumerate(nights):
        found = write(sources, "table", [rows], "parquet")
        assert found
        taken.append(found)
        if not number:
            keep_contents(platform, spec, found)
    changes = []
    for day, (rows_old, rows_new) in enumerate(pairwise(nights)):
        write(sources, "table", [rows_new], "parquet")
        delta = make_delta(platform, spec, taken[day], taken[day + 1], base=BASE)
        assert isinstance(delta, Delta)
        changes.append(delta.changes)
        assert delta.changes == model(rows_old, rows_new)[0]
    assert [(item.changed, item.new, item.deleted, item.unchanged) for item in changes] == [(1, 1, 0, 1), (1, 0, 1, 1)]


def test_without_contents_a_table_that_was_written_over_is_refused(sources: SourceFolder) -> None:
    """And other columns or another prompt are other contents."""
    spec, platform = spec_of(), open_platform(sources)
    old = write(sources, "table", [[Row("a", "1")]], "parquet")
    assert old
    keep_contents(platform, replace(spec, prompt=PromptSpec(system="Sort it.", user="{text}")), old)
    new = write(sources, "table", [[Row("a", "2")]], "parquet")
    assert new
    with pytest.raises(SnapshotChanged, match=r"0\.parquet"):
        make_delta(platform, spec, old, new, base=BASE)


def test_contents_that_were_damaged_are_refused(sources: SourceFolder) -> None:
    """A wrong hash would make a record unchanged that is not."""
    spec, platform = spec_of(), open_platform(sources)
    old = write(sources, "table", [[Row("a", "1")]], "parquet")
    assert old
    keep_contents(platform, spec, old)
    (key,) = [item.key for item in platform.store.list("snapshots") if "contents-" in item.key]
    platform.store.delete(key)
    platform.store.put_if_absent(key, b"PAR1")
    with pytest.raises(ObjectDamaged, match="contents-00000"):
        make_delta(platform, spec, old, old, base=BASE)


def test_access_labels_and_failures_come_along(sources: SourceFolder) -> None:
    """The delta's rows are the source's: labels whole (I9), a refused record with its reason and its line."""
    sources.write("old/a.jsonl", json.dumps({"record_id": "a", "text": "t", "acl": ["x"]}))
    lines = [{"record_id": "a", "text": "t", "acl": ["x", "y"]}, {"record_id": "b", "text": "t", "acl": 7}]
    sources.write("new/a.jsonl", "\n".join(map(json.dumps, lines)) + "\nbroken")
    old, new = (sources.take(name, access="acl").snapshot for name in ("old", "new"))
    spec = job_spec("source", access="acl")
    delta = make_delta(open_platform(sources), spec, old, new, base=BASE)
    assert isinstance(delta, Delta)
    planned = plan_version(spec, delta.snapshot, tokens=ByteCounter())
    (row,) = SnapshotReader(delta.snapshot, spec.input.columns).read_shard(planned.plan.shards[0], skip={1, 2})
    assert (row.record_id, row.access) == ("a", ("x", "y"))
    refused = pl.read_parquet(io.BytesIO(planned.refused))
    assert refused["failure"].to_list() == ["invalid_column", "unreadable"]
    assert [reason.partition(":")[0] for reason in refused["reason"]] == ["line 2", "line 3"]


def test_the_real_day_after(shared_data: Path, sources: SourceFolder) -> None:
    """80 of 1,010 real records are to be answered, 20 are gone."""
    for name in ("small", "changed"):
        sources.write(f"{name}/a.parquet", (shared_data / f"support_{name}.parquet").read_bytes())
    old, new = (sources.take(name, carry=("lang",)).snapshot for name in ("small", "changed"))
    platform = open_platform(sources)
    delta = make_delta(platform, job_spec("source", carry=("lang",)), old, new, base=BASE, lost_share_max=0.05)
    assert isinstance(delta, Delta)
    expected = pl.read_csv(shared_data / "changes_expected.csv")
    rows = pl.read_parquet(delta.snapshot.objects[0].data_uri)
    assert set(rows["record_id"]) == set(expected.filter(pl.col("change") != "deleted")["record_id"])
    assert rows.height == 80
    assert tombstones(platform, delta) == sorted(expected.filter(change="deleted")["record_id"])
    source = pl.read_parquet(shared_data / "support_changed.parquet")
    assert rows["text"].to_list() == source["text"].gather(rows["_object_row"]).to_list()
