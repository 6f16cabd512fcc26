"""A snapshot's name is its content's digest: not where it lies, not how it was read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.snapshot import Snapshot, SnapshotObject, limit_rows


def make_object(key: str = "a.parquet", rows: int = 3) -> SnapshotObject:
    return SnapshotObject(
        key=key, size_bytes=10, checksum="sha256:1", rows=rows, data_uri=f"/data/{key}", converted=False
    )


FIRST, SECOND = make_object("a.parquet"), make_object("b.parquet", 4)
SNAPSHOT = Snapshot(uri="/data", objects=(FIRST, SECOND))


@pytest.mark.parametrize("change", [{"data_uri": "s3://elsewhere/a.parquet"}, {"converted": True}])
def test_where_it_lies_does_not_change_the_digest(change: dict[str, object]) -> None:
    """A copied or converted source is the same input."""
    moved = Snapshot(uri="s3://elsewhere", objects=(replace(FIRST, **change), SECOND))  # type: ignore[arg-type]
    assert moved.digest == SNAPSHOT.digest


@pytest.mark.parametrize("change", [{"key": "c"}, {"size_bytes": 11}, {"checksum": "sha256:2"}, {"rows": 2}])
def test_what_it_holds_changes_the_digest(change: dict[str, object]) -> None:
    """Each part of an object's identity counts."""
    other = Snapshot(uri="/data", objects=(replace(FIRST, **change), SECOND))  # type: ignore[arg-type]
    assert other.digest != SNAPSHOT.digest


def test_the_order_of_objects_changes_the_digest() -> None:
    """A record's position is part of its shard."""
    assert Snapshot(uri="/data", objects=(SECOND, FIRST)).digest != SNAPSHOT.digest


def test_a_snapshot_survives_json() -> None:
    """It is stored in the registry, with its digest for people."""
    value = SNAPSHOT.to_json()
    assert Snapshot.from_json(value) == SNAPSHOT
    assert value["digest"] == SNAPSHOT.digest
    assert SNAPSHOT.name == "s-" + SNAPSHOT.digest.removeprefix("sha256:")[:12]


@given(st.lists(st.integers(0, 9), max_size=6), st.none() | st.integers(1, 60))
def test_a_limit_keeps_the_first_rows(rows: list[int], limit: int | None) -> None:
    """As many as there are, up to the limit, from the front, and the objects before are whole."""
    objects = [make_object(str(index), count) for index, count in enumerate(rows)]
    kept = limit_rows(objects, limit)
    total = sum(rows)
    assert sum(item.rows for item in kept) == (total if limit is None else min(total, limit))
    assert [item.key for item in kept] == [item.key for item in objects[: len(kept)]]
    assert all(item.rows == objects[place].rows for place, item in enumerate(kept[:-1]))
