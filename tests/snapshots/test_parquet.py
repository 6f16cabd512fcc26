"""Parquet sources: corrupt files, wrong types and bytes that are not text, each refused by name."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_assets.domain.errors import InputError, SnapshotChanged
from batch_assets.domain.plan import Shard, Slice
from batch_assets.domain.spec import InputColumns
from resources.snapshots.read import SnapshotReader
from tests.fixtures.sources import SourceFolder

ROWS = 3_000


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=1_000)
    return path


def write_good(path: Path) -> Path:
    """Write rows that do not compress away, so that every part of the file matters."""
    noise = np.random.default_rng(7).bytes(ROWS * 20).hex()
    return write(
        path, record_id=[f"t-{i}" for i in range(ROWS)], text=[noise[i * 40 : i * 40 + 40] for i in range(ROWS)]
    )


@pytest.mark.parametrize("keep", [0, 3, 4, 100, -1, -8, -500])
def test_a_truncated_file_is_refused_by_name(sources: SourceFolder, keep: int) -> None:
    """An upload that was cut off has no footer."""
    path = write_good(sources.folder / "a.parquet")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"a\.parquet: not a readable Parquet file"):
        sources.take()


def test_a_file_that_lost_its_middle_is_refused_by_name(sources: SourceFolder) -> None:
    """Its footer is good, and names bytes beyond the file's end."""
    path = write_good(sources.folder / "a.parquet")
    data = path.read_bytes()
    path.write_bytes(data[:1_000] + data[-2_000:])
    with pytest.raises(InputError, match=r"a\.parquet: cut off or corrupt: column \w+ of row group \d would lie"):
        sources.take()


def test_a_damaged_page_is_refused_by_name_when_the_version_is_planned(sources: SourceFolder) -> None:
    """The footer cannot tell; reading it does, before anything is registered."""
    path = write_good(sources.folder / "a.parquet")
    data = bytearray(path.read_bytes())
    data[60_000:60_400] = b"\0" * 400
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet: cannot be read"):
        sources.plan()


@pytest.mark.parametrize("change", ["content", "shorter", "gone"])
def test_a_source_that_changed_after_the_snapshot_stops_the_worker(sources: SourceFolder, change: str) -> None:
    """The plan's rows are no longer these rows: an answer would be filed under another record's id."""
    path = write_good(sources.folder / "a.parquet")
    source = sources.plan()
    data = path.read_bytes()
    path.unlink()
    if change == "content":
        path.write_bytes(data[:500] + bytes([data[500] ^ 1]) + data[501:])
        os.utime(path, (1, 1))
    if change == "shorter":
        path.write_bytes(data[:-1])
    with pytest.raises(SnapshotChanged, match=r"a\.parquet"):
        source.answerable()


@pytest.mark.parametrize("column", ["record_id", "text", "lang", "acl"])
def test_an_absent_column_is_refused_with_what_is_there(sources: SourceFolder, column: str) -> None:
    """The message is enough to mend the spec."""
    names = [name for name in ("record_id", "text", "lang", "acl") if name != column]
    write(sources.folder / "a.parquet", **{name: ["x"] for name in [*names, f"{column}s"]})
    expected = rf"a\.parquet: has no column '{column}' \(did you mean '{column}s'.*it has .*'{names[0]}'"
    with pytest.raises(InputError, match=expected):
        sources.take(carry=("lang",), access="acl")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("record_id", pa.array([1.0])),
        ("record_id", pa.array([True])),
        ("record_id", pa.array([b"x"])),
        ("record_id", pa.array([["x"]])),
        ("record_id", pa.array([dt.datetime(2026, 3, 2, tzinfo=dt.UTC)])),
        ("record_id", pa.nulls(1)),
        ("text", pa.array([1])),
        ("text", pa.array([b"x"])),
        ("text", pa.array([["x"]])),
        ("lang", pa.array([b"x"])),
        ("lang", pa.array([dt.timedelta(1)])),
        ("acl", pa.array([1])),
        ("acl", pa.array([[1]])),
        ("acl", pa.array([{"a": "x"}])),
    ],
)
def test_a_column_of_a_wrong_type_is_refused_by_name(sources: SourceFolder, column: str, values: pa.Array) -> None:
    """Nothing is coerced that could be read in two ways."""
    columns: dict[str, Any] = {name: ["x"] for name in ("record_id", "text", "lang", "acl")}
    write(sources.folder / "a.parquet", **{**columns, column: values})
    with pytest.raises(InputError, match=rf"a\.parquet: column '{column}' is .*; it must be"):
        sources.take(carry=("lang",), access="acl")


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ],
)
def test_every_kind_of_text_is_text(sources: SourceFolder, kind: pa.DataType) -> None:
    """Which one a file has depends on its writer."""
    values = pa.array(["a", "b"], pa.string()).cast(kind)
    write(sources.folder / "a.parquet", record_id=values, text=values, lang=values, acl=values)
    rows = sources.plan(carry=("lang",), access="acl").answerable()
    assert [row[1:] for row in rows] == [("a", "a", ("a",), ("a",)), ("b", "b", ("b",), ("b",))]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()])
def test_integer_ids_are_their_decimal_text_and_that_is_said(sources: SourceFolder, kind: pa.DataType) -> None:
    """A column of integers has no second reading, unlike a JSON number; a large one stays exact."""
    largest = {"int8": 127, "int64": 2**53 + 1, "uint64": 2**64 - 1}[str(kind)]
    write(sources.folder / "a.parquet", record_id=pa.array([7, largest], kind), text=["x", "y"])
    source = sources.plan()
    assert [row.record_id for row in source.answerable()] == ["7", str(largest)]
    assert source.taken.notes == (f"column record_id is {kind}: record_id is its decimal text",)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([True]), "true"),
        (pa.array([-3], pa.int16()), "-3"),
        (pa.array([0.1]), "0.1"),
        (pa.array([Decimal("1.50")]), "1.50"),
        (pa.array([dt.date(2026, 3, 2)]), "2026-03-02"),
        (pa.array([dt.datetime(2026, 3, 2, 9)], pa.timestamp("ms")), "2026-03-02T09:00:00.000"),  # noqa: DTZ001
        (pa.array([1_772_442_000_000], pa.timestamp("ms", "Europe/Berlin")), "2026-03-02T09:00:00.000Z"),
        (pa.array([["a", "é"]]), '["a","é"]'),
        (pa.array([{"a": 1}]), '{"a":1}'),
        (pa.array([None], pa.int64()), None),
        (pa.nulls(1), None),
    ],
)
def test_carried_columns_have_one_canonical_text(sources: SourceFolder, values: pa.Array, text: str | None) -> None:
    """A result's carried column is text, whatever the source's type."""
    write(sources.folder / "a.parquet", record_id=["1"], text=["x"], value=values)
    assert [row.carry for row in sources.plan(carry=("value",)).answerable()] == [(text,)]


def test_access_labels_keep_null_and_empty_apart(sources: SourceFolder) -> None:
    """No labels known is not the same as no label needed (I9)."""
    acl = pa.array([["a", "b"], [], None], pa.list_(pa.string()))
    write(sources.folder / "a.parquet", record_id=["1", "2", "3"], text=["x"] * 3, acl=acl)
    assert [row.access for row in sources.plan(access="acl").answerable()] == [("a", "b"), (), None]


def not_utf8(*values: bytes | None) -> pa.Array:
    """A text column with bytes that are not UTF-8, as a careless C++ writer makes it."""
    raw = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())


def test_bytes_that_are_not_utf8_in_a_text_column_are_refused_record_by_record(sources: SourceFolder) -> None:
    """Parquet's readers trust the column's type; the first to stumble would be the worker, with the whole shard."""
    ids = not_utf8(b"1", b"\xff", b"3", b"4", b"5", None)
    texts = not_utf8(b"good", b"x", b"caf\xe9", b"x", b"x", b"x")
    langs = not_utf8(b"en", b"en", b"en", b"\xed\xa0\xbd", b"en", b"en")
    labels = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3, 4, 6, 6]), not_utf8(b"a", b"a", b"a", b"a", b"a", b"\xc0\xaf")
    )
    write(sources.folder / "a.parquet", record_id=ids, text=texts, lang=langs, acl=labels)
    source = sources.plan(carry=("lang",), access="acl")
    assert source.failures == {
        1: "invalid_id",
        2: "invalid_text",
        3: "invalid_column",
        4: "invalid_column",
        5: "missing_id",
    }
    assert [row.record_id for row in source.answerable()] == ["1"]
    assert source.refused["record_id"].to_list() == [None, "3", "4", "5", None]


def test_a_null_among_access_labels_refuses_the_record(sources: SourceFolder) -> None:
    """A list that lost a label cannot be inherited whole (I9)."""
    acl = pa.array([["a"], ["a", None]], pa.list_(pa.string()))
    write(sources.folder / "a.parquet", record_id=["1", "2"], text=["x"] * 2, acl=acl)
    assert sources.plan(access="acl").failures == {1: "invalid_column"}


def test_a_row_without_id_that_the_plan_does_not_refuse_stops_the_worker(sources: SourceFolder) -> None:
    """Then the plan is not this snapshot's: better no answer than one under no name."""
    write(sources.folder / "a.parquet", record_id=["1", None], text=["x"] * 2)
    shard = Shard(
        index=0,
        slices=(Slice(object_index=0, start=0, stop=2),),
        records=2,
        refused=0,
        estimated_tokens=0,
    )
    with pytest.raises(SnapshotChanged, match="not refused at planning"):
        list(SnapshotReader(sources.take().snapshot, InputColumns()).read_shard(shard))


def test_two_columns_of_one_name_are_refused(sources: SourceFolder) -> None:
    """Arrow can write them; which one is meant, nobody can say."""
    table = pa.Table.from_arrays([pa.array(["1"]), pa.array(["x"]), pa.array(["y"])], ["record_id", "text", "text"])
    pq.write_table(table, sources.folder / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: has 2 columns named 'text'"):
        sources.take()
