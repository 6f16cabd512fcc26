"""The keys of everything stored for a version, in one DuckDB table `keys`: what coverage counts.

A record's *position* is its place in the snapshot: the rows of all earlier objects and its row in its own. Shards cut
a snapshot without gaps, so (shard, row) and (object, row) both give it by one addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from batch_assets.domain.errors import BatchError, ConservationBroken
from batch_assets.domain.lease import Outcome
from batch_assets.domain.plan import Plan
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from resources.results.parquet import fetch_many, fetch_parquet

_INSERT_ROWS_MIN = 100_000  # small inserts cost more than they move
_COLUMNS = ("record_id", "shard", "row")

_CREATE = "CREATE OR REPLACE TEMP TABLE keys (position BIGINT, record_id VARCHAR, dead BOOLEAN, shard INT, row INT)"
_INSERT = "INSERT INTO keys SELECT position, record_id, dead, shard, row FROM batch"


@dataclass(frozen=True, slots=True)
class Places:
    """By shard: the position of its first record, and how many it has."""

    starts: NDArray[np.int64]
    records: NDArray[np.int64]


def place_shards(plan: Plan, snapshot: Snapshot) -> Places:
    """Return the shards' positions.

    Raises:
        ConservationBroken: the plan does not cut this snapshot in order, without gaps, to its end.
    """
    object_starts = [start for start, _ in place_objects(snapshot)]
    position = 0
    starts = []
    for index, shard in enumerate(plan.shards):
        starts.append(position)
        for piece in shard.slices:
            if shard.index != index or object_starts[piece.object_index] + piece.start != position:
                raise ConservationBroken(f"{plan.version}: shard {shard.index} does not begin where the last one ends")
            position += piece.rows
    if position != snapshot.rows:
        raise ConservationBroken(f"{plan.version}: the plan has {position} of the snapshot's {snapshot.rows} rows")
    return Places(np.array(starts, np.int64), np.array([shard.records for shard in plan.shards], np.int64))


def place_objects(snapshot: Snapshot) -> Iterator[tuple[int, SnapshotObject]]:
    """Yield each object of a snapshot with the position of its first row."""
    starts = accumulate((item.rows for item in snapshot.objects), initial=0)
    return zip(starts, snapshot.objects, strict=False)


def load_keys(
    store: ObjectStore,
    cursor: duckdb.DuckDBPyConnection,
    places: Places,
    done: Sequence[tuple[int, Outcome]],
    refused_key: str,
) -> tuple[list[str], set[int]]:
    """Make the temporary table `keys` (position, record_id, dead, shard, row); no position means outside of the plan.

    Returns what could not be read, a sentence each, and the shards that it belonged to.

    Raises:
        ObjectMissing, ObjectDamaged: the refused records cannot be read.
    """
    cursor.execute(_CREATE)
    objects = {item.key: item for shard, outcome in done for item in _objects(shard, outcome)}
    unreadable: list[str] = []
    lost: set[int] = set()
    refused = fetch_parquet(store, refused_key, _COLUMNS).select(list(_COLUMNS))
    # Their ids may be absent or not text, and planning took them from the source itself: not compared.
    refused = refused.set_column(0, "record_id", pa.nulls(refused.num_rows, pa.string()))
    waiting = [_placed_rows(refused, places, None, dead=True)]
    for key, table in fetch_many(store, {key: item.digest for key, item in objects.items()}, _COLUMNS):
        item = objects[key]
        if isinstance(table, BatchError):
            unreadable.append(str(table))
            lost.add(item.shard)
            continue
        if table.num_rows != item.rows:
            unreadable.append(f"{key} has {table.num_rows} rows, the shard table says {item.rows}")
        waiting.append(_placed_rows(table, places, item.shard, dead=item.dead))
        if sum(item.num_rows for item in waiting) >= _INSERT_ROWS_MIN:
            _insert(cursor, waiting)
    _insert(cursor, waiting)
    return unreadable, lost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """A compact object and what the shard table says of it."""

    key: str
    digest: str
    rows: int
    shard: int
    dead: bool


def _objects(shard: int, outcome: Outcome) -> Iterator[_Object]:
    yield _Object(key=outcome.result_key, digest=outcome.result_digest, rows=outcome.results, shard=shard, dead=False)
    if outcome.dead_key and outcome.dead_digest:
        yield _Object(
            key=outcome.dead_key, digest=outcome.dead_digest, rows=outcome.dead_letters, shard=shard, dead=True
        )


def _placed_rows(table: pa.Table, places: Places, home: int | None, *, dead: bool) -> pa.Table:
    """Return rows of `keys`; a row that is not of its object's shard, or not of the plan, has no position."""
    shard, row = table.column("shard").to_numpy(), table.column("row").to_numpy()
    known = (shard >= 0) & (shard < len(places.starts)) & (row >= 0)
    at = np.where(known, shard, 0)
    known &= row < places.records[at]
    if home is not None:
        known &= shard == home
    return pa.table(
        {
            "position": pa.array(places.starts[at] + row, mask=~known),
            "record_id": table.column("record_id"),
            "dead": pa.repeat(pa.scalar(dead), table.num_rows),
            "shard": table.column("shard"),
            "row": table.column("row"),
        }
    )


def _insert(cursor: duckdb.DuckDBPyConnection, waiting: list[pa.Table]) -> None:
    if waiting:
        cursor.register("batch", pa.concat_tables(waiting))
        cursor.execute(_INSERT)
        cursor.unregister("batch")
        waiting.clear()
