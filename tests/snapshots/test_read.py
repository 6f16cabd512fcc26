"""Reading slices and shards: every row once, in order, whatever the row groups and cuts."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_assets.domain.plan import Shard, Slice, cut_shards
from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from batch_assets.domain.spec import InputColumns
from resources.snapshots import read
from resources.snapshots.place import stat
from resources.snapshots.read import SnapshotReader, batch_schema, read_slices
from resources.snapshots.verify import checksum_of
from tests.fixtures.sources import SourceFolder

COLUMNS = InputColumns(carry=("lang",))


def make_snapshot(folder: Path, files: list[int], group_rows: int) -> Snapshot:
    """Write Parquet files with these numbers of rows; ids count through them."""
    objects = []
    first = 0
    for index, rows in enumerate(files):
        path = folder / f"{index}.parquet"
        ids = [str(first + row) for row in range(rows)]
        table = pa.table({"record_id": pa.array(ids, pa.string()), "text": pa.array(ids, pa.string())})
        pq.write_table(table.append_column("lang", table["text"]), path, row_group_size=group_rows)
        first += rows
        objects.append(
            SnapshotObject(
                key=path.name,
                size_bytes=path.stat().st_size,
                checksum=checksum_of(stat(str(path), None)),
                rows=rows,
                data_uri=str(path),
                converted=False,
            )
        )
    return Snapshot(uri=str(folder), objects=tuple(objects))


@settings(max_examples=40, deadline=None)
@given(
    files=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    group_rows=st.integers(1, 12),
    shard_size=st.integers(1, 25),
    data=st.data(),
)
def test_shards_read_back_the_snapshot_row_for_row(
    files: list[int], group_rows: int, shard_size: int, data: st.DataObject
) -> None:
    """Cutting and reading are inverse: no row lost at an edge of a group, a file or a shard, and none twice."""
    with tempfile.TemporaryDirectory() as folder:
        snapshot = make_snapshot(Path(folder), files, group_rows)
        reader = SnapshotReader(snapshot, COLUMNS)
        seen: list[str] = []
        for index, slices in enumerate(cut_shards(files, shard_size)):
            records = sum(piece.rows for piece in slices)
            shard = Shard(index=index, slices=slices, records=records, refused=0, estimated_tokens=0)
            rows = list(reader.read_shard(shard))
            assert [row.row for row in rows] == list(range(records))
            assert all(row.text == row.record_id and row.carry == (row.text,) for row in rows)
            skip = frozenset(data.draw(st.sets(st.integers(0, records - 1))))
            assert list(reader.read_shard(shard, skip=skip)) == [row for row in rows if row.row not in skip]
            seen += [row.record_id for row in rows]
        assert seen == [str(number) for number in range(sum(files))]


def test_batches_say_where_each_row_is(sources: SourceFolder) -> None:
    """Object, row and line name a record for people; a slice may begin anywhere."""
    snapshot = make_snapshot(sources.folder, [5, 5], 2)
    pieces = [Slice(object_index=0, start=3, stop=5), Slice(object_index=1, start=1, stop=3)]
    table = pa.Table.from_batches(read_slices(snapshot, pieces, COLUMNS), schema=batch_schema(COLUMNS))
    assert table.select(["record_id", "object_index", "object_row", "line"]).to_pylist() == [
        {"record_id": "3", "object_index": 0, "object_row": 3, "line": None},
        {"record_id": "4", "object_index": 0, "object_row": 4, "line": None},
        {"record_id": "6", "object_index": 1, "object_row": 1, "line": None},
        {"record_id": "7", "object_index": 1, "object_row": 2, "line": None},
    ]


def test_batches_are_small_where_rows_are_large(sources: SourceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is bounded by bytes, not by rows alone: contracts have megabytes."""
    monkeypatch.setattr(read, "BATCH_BYTES", 10_000)
    texts = [chr(65 + place % 26) * 3_000 + str(place) for place in range(50)]
    pq.write_table(
        pa.table({"record_id": texts, "text": texts, "lang": texts}),
        sources.folder / "a.parquet",
        use_dictionary=False,
        compression="none",
    )
    snapshot = sources.take(carry=("lang",)).snapshot
    batches = list(read_slices(snapshot, [Slice(object_index=0, start=0, stop=50)], COLUMNS))
    assert [batch.num_rows for batch in batches] == [1] * 50


def test_a_carried_column_may_have_any_name(sources: SourceFolder) -> None:
    """`text` beside the text, our own names, a dot, a quote: the converted form keeps them apart."""
    names = ("text", "access", "_failure", "_line", "a.b", 'say "x"', "record_id")
    values = {"id": "1", "body": "the text", **{name: f"carried {name}" for name in names}}
    sources.write("p/a.parquet", pl.DataFrame(values))
    sources.write("j/a.jsonl", json.dumps(values))
    for folder in ("p", "j"):
        rows = sources.plan(folder, id="id", text="body", carry=names).answerable()
        assert [row[1:4] for row in rows] == [("1", "the text", tuple(f"carried {name}" for name in names))]
