"""The snapshot diff: what a plain dictionary says of two small snapshots, whatever formats and orders they come in."""

from __future__ import annotations

import csv
import io
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_assets.domain.changes import Changes
from batch_assets.domain.errors import SnapshotChanged
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns
from resources import scratch
from resources.result_store.store import open_result_store
from resources.snapshots.diff import DIFF_SCHEMA, Diff, diff_snapshots
from tests.fixtures.sources import SourceFolder

COLUMNS = InputColumns(carry=("lang", "label"))
PROMPT = ("lang", "text")
FORMATS = ("parquet", "csv", "jsonl")


class Row(NamedTuple):
    """One record of a source."""

    record_id: str | None
    text: str | None
    lang: str | None = "en"
    label: str | None = "x"


def write(sources: SourceFolder, name: str, files: list[list[Row]], ending: str) -> Snapshot | None:
    """Write a source of several files and take its snapshot; None if it has no record."""
    if not any(files):
        return None
    for number, rows in enumerate(files):
        path = f"{name}/{number}.{ending}"
        if ending == "parquet":
            columns = {field: [getattr(row, field) for row in rows] for field in Row._fields}
            sources.write(path, pl.DataFrame(columns, schema=dict.fromkeys(Row._fields, pl.String)))
        elif ending == "csv":
            sink = io.StringIO(newline="")
            csv.writer(sink, quoting=csv.QUOTE_ALL).writerows(
                [Row._fields, *[["" if value is None else value for value in row] for row in rows]]
            )
            sources.write(path, sink.getvalue())
        else:
            sources.write(path, "".join(json.dumps(row._asdict()) + "\n" for row in rows))
    return sources.take(name, carry=("lang", "label")).snapshot


def model(old: list[Row], new: list[Row]) -> tuple[Changes, Counter[tuple[str | None, str, bool, bool]]]:
    """Say what changed, with dictionaries: the counts, and (id, change, in old, in new) of each row of the diff."""
    sides = []
    for rows in (old, new):
        known: dict[str, list[tuple[str, str]]] = {}
        for row in rows:
            if row.record_id and row.record_id.strip():
                known.setdefault(row.record_id, []).append((row.text or "", row.lang or ""))
        sides.append(known)
    before, after = sides
    several = {name for known in sides for name, found in known.items() if len(found) > 1}
    rows_of: Counter[tuple[str | None, str, bool, bool]] = Counter()
    unchanged = 0
    for name in ({*before, *after}) - several:
        if name not in before:
            rows_of[name, "new", False, True] += 1
        elif name not in after:
            rows_of[name, "deleted", True, False] += 1
        elif before[name] != after[name]:
            rows_of[name, "changed", True, True] += 1
        else:
            unchanged += 1
    unusable: list[Counter[tuple[str, str, str]]] = []
    for rows, known in zip((old, new), sides, strict=True):
        bad = [row for row in rows if row.record_id not in known or row.record_id in several]
        for row in bad:
            rows_of[row.record_id or None, "unusable", rows is old, rows is new] += 1
        unusable.append(Counter((row.record_id or "", row.text or "", row.lang or "") for row in bad))
    count = Counter(change for _, change, *_ in rows_of.elements())
    return Changes(
        new=count["new"],
        changed=count["changed"],
        deleted=count["deleted"],
        unchanged=unchanged,
        unusable_old=unusable[0].total(),
        unusable_new=unusable[1].total(),
        blurred=sum(len(before.get(name, ())) == 1 and len(after.get(name, ())) > 1 for name in several),
        unusable_alike=unusable[0] == unusable[1],
    ), rows_of


def told(diff: Diff) -> Counter[tuple[str | None, str, bool, bool]]:
    """Return the rows of a diff as `model` gives them."""
    rows = pa.Table.from_batches(diff.rows(), schema=DIFF_SCHEMA).to_pylist()
    return Counter(
        (
            row["record_id"] or None,
            row["change"],
            row["old_object_row"] is not None,
            row["new_object_row"] is not None,
        )
        for row in rows
    )


IDS = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "A", " ", None])
WORDS = st.sampled_from(["", "x", "1:x", "y", None])
ROWS = st.builds(Row, IDS, WORDS, WORDS, st.sampled_from(["x", "y"]))
FILES = st.lists(st.lists(ROWS, max_size=6), max_size=3)


@contextmanager
def a_folder() -> Iterator[SourceFolder]:
    """Return an empty source folder for one example."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "source").mkdir()
        yield SourceFolder(path / "source", open_result_store(str(path / "store")))


@settings(max_examples=60, deadline=None)
@given(old=FILES, new=FILES, endings=st.tuples(st.sampled_from(FORMATS), st.sampled_from(FORMATS)))
def test_it_says_what_a_dictionary_says(old: list[list[Row]], new: list[list[Row]], endings: tuple[str, str]) -> None:
    """Duplicates, nulls and blank ids included; the other way round, new and deleted change places."""
    with a_folder() as sources:
        taken = [
            write(sources, name, files, ending)
            for name, files, ending in zip(("old", "new"), (old, new), endings, strict=True)
        ]
        empty = Snapshot(uri="nothing", objects=())
        sides = [found or empty for found in taken]
        flat = [list(itertools.chain(*files)) for files in (old, new)]
        for first, second in ((0, 1), (1, 0)):
            with diff_snapshots(sides[first], sides[second], COLUMNS, PROMPT, threads=1) as diff:
                changes, rows = model(flat[first], flat[second])
                assert diff.changes == changes
                assert told(diff) == rows
                gone = {row.record_id for row in flat[first]} - {row.record_id for row in flat[second]}
                gone_ids = [name for ids in diff.gone() for name in ids.to_pylist()]
                assert gone_ids == sorted(name for name in gone if name and name.strip())
                wanted = [place for places in diff.wanted() for place in places.tolist()]
                assert wanted == sorted(wanted)
                assert len(wanted) == changes.delta_rows


def test_the_real_day_after(shared_data: Path, sources: SourceFolder) -> None:
    """50 edited, 30 new, 20 deleted, 930 untouched: exactly the records of the true difference."""
    for name in ("small", "changed"):
        path = shared_data / f"support_{name}.parquet"
        sources.write(f"{name}/{path.name}", path.read_bytes())
    old, new = (sources.take(name, carry=("lang", "source")).snapshot for name in ("small", "changed"))
    expected = pl.read_csv(shared_data / "changes_expected.csv").select(
        "record_id", pl.col("change").replace("edited", "changed")
    )
    with diff_snapshots(old, new, InputColumns(carry=("lang", "source")), ("text",)) as diff:
        found = pl.from_arrow(pa.Table.from_batches(diff.rows()))
        assert isinstance(found, pl.DataFrame)
        assert found.select("record_id", "change").sort("record_id").equals(expected.sort("record_id"))
        assert (diff.changes.unchanged, diff.changes.unusable_old, diff.changes.unusable_new) == (930, 0, 0)


def test_rows_say_where_they_are(sources: SourceFolder) -> None:
    """Object and row on both sides, so that somebody can look."""
    old = write(sources, "old", [[Row("a", "1"), Row("b", "1")], [Row("c", "1"), Row("c", "1")]], "csv")
    new = write(sources, "new", [[], [Row("b", "2"), Row("d", "1")]], "parquet")
    assert old
    assert new
    with diff_snapshots(old, new, COLUMNS, PROMPT) as diff:
        rows = [tuple(row.values()) for row in pa.Table.from_batches(diff.rows()).to_pylist()]
    assert rows == [
        ("b", "changed", 0, 1, 0, 0),
        ("d", "new", None, None, 0, 1),
        ("a", "deleted", 0, 0, None, None),
        ("c", "unusable", 1, 0, None, None),
        ("c", "unusable", 1, 1, None, None),
    ]


@pytest.mark.parametrize("column", ["label", "lang"])
def test_only_what_the_prompt_shows_is_content(sources: SourceFolder, column: str) -> None:
    """A label that the prompt does not hold is no reason to pay for an answer again."""
    old = write(sources, "old", [[Row("a", "1")]], "jsonl")
    new = write(sources, "new", [[Row("a", "1")._replace(**{column: "other"})]], "jsonl")
    assert old
    assert new
    with diff_snapshots(old, new, COLUMNS, PROMPT) as diff:
        assert diff.changes.changed == (column == "lang")


ACCESS = (None, [], [""], ["a", "b"], ["ab"], ["b", "a"], ["a,b"], ["1:a1:b"])


@pytest.mark.parametrize(("first", "second"), list(itertools.product(range(len(ACCESS)), repeat=2)))
def test_access_labels_are_content(sources: SourceFolder, first: int, second: int) -> None:
    """A record whose rights changed must get a row with the new ones (I9); no two lists of labels look alike."""
    columns = InputColumns(access="acl")
    sides = []
    for name, place in (("old", first), ("new", second)):
        record = {"record_id": "a", "text": "t", "acl": ACCESS[place]}
        sources.write(f"{name}/a.jsonl", json.dumps(record))
        sides.append(sources.take(name, access="acl").snapshot)
    with diff_snapshots(sides[0], sides[1], columns, ("text",)) as diff:
        assert diff.changes.changed == (first != second)


def test_a_value_that_cannot_be_used_is_compared_by_its_failure(sources: SourceFolder) -> None:
    """Text to a list of turns: the old answer must not stay. Another list: a dead letter as before."""
    sources.write("old/a.jsonl", '{"record_id": "a", "text": ""}\n{"record_id": "b", "text": [1]}\nbroken\n')
    sources.write("new/a.jsonl", '{"record_id": "a", "text": [1]}\n{"record_id": "b", "text": [2]}\ncut of\n')
    old, new = (sources.take(name).snapshot for name in ("old", "new"))
    with diff_snapshots(old, new, InputColumns(), ("text",)) as diff:
        assert told(diff) == Counter(
            {("a", "changed", True, True): 1, (None, "unusable", True, False): 1, (None, "unusable", False, True): 1}
        )
        assert diff.changes.unusable_alike


def test_texts_that_differ_in_every_eighth_byte_differ(sources: SourceFolder) -> None:
    """DuckDB's own hash has 256 values for these 1,296 texts: with it, five of them passed for unchanged."""
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    texts = [f"date is{first}due in {second} and more" for first in letters for second in letters]
    old = write(sources, "old", [[Row(str(place), texts[0]) for place in range(len(texts))]], "parquet")
    new = write(sources, "new", [[Row(str(place), text) for place, text in enumerate(texts)]], "parquet")
    assert old
    assert new
    with diff_snapshots(old, new, COLUMNS, PROMPT) as diff:
        assert (diff.changes.unchanged, diff.changes.changed) == (1, len(texts) - 1)


def test_a_source_that_was_written_over_is_refused(sources: SourceFolder) -> None:
    """The same path with tomorrow's records would be compared with itself, and nothing would have changed."""
    old = write(sources, "s", [[Row("a", "1")]], "parquet")
    new = write(sources, "s", [[Row("a", "2"), Row("b", "2")]], "parquet")
    assert old
    assert new
    with pytest.raises(SnapshotChanged, match=r"0\.parquet"):
        diff_snapshots(old, new, COLUMNS, PROMPT)


def test_it_spills_instead_of_growing(sources: SourceFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Under a limit that is smaller than its tables the numbers are the same, and nothing is left on disk."""
    monkeypatch.setattr(scratch, "FILL_BYTES", 1 << 20)
    count = 200_000
    frame = pl.DataFrame(
        {"record_id": [f"record-{n:032}" for n in range(count)], "text": [str(n) for n in range(count)]}
    )
    sources.write("old/a.parquet", frame)
    sources.write("new/a.parquet", frame.with_columns(text=pl.lit("other")).tail(count - 10))
    old, new = (sources.take(name).snapshot for name in ("old", "new"))
    folder = tmp_path / "scratch"
    folder.mkdir()
    with diff_snapshots(
        old, new, InputColumns(), ("text",), memory_limit="40MB", threads=1, scratch_dir=folder
    ) as diff:
        assert (diff.changes.changed, diff.changes.deleted) == (count - 10, 10)
        assert sum(batch.num_rows for batch in diff.rows()) == count
    assert list(folder.iterdir()) == []
