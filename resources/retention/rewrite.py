"""Tables without one record. What must still add up keeps a nameless row in its place (I6)."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.plan import Plan
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.release import ReleasedObject
from batch_assets.domain.snapshot import Snapshot
from resources.results.parquet import COMPACT_LEVEL, write_parquet
from resources.results.table_schema import DEAD_LETTER_SCHEMA

FORGOTTEN = "forgotten"
REASON = "deleted on request"
_DIGEST = re.compile(r"(-[0-9a-f]{12,16})?\.parquet$")


def without(table: pa.Table, record_id: str) -> pa.Table:
    """Return the rows of all other records; metadata of schema and columns stays."""
    return table.filter(pc.invert(_is(table, record_id)))


def only(table: pa.Table, record_id: str) -> list[dict[str, Any]]:
    """Return the record's rows."""
    rows: list[dict[str, Any]] = table.filter(_is(table, record_id)).to_pylist()
    return rows


def nameless(table: pa.Table, record_id: str) -> pa.Table:
    """Return dead letters in which the record's keep their place, class and counts, and lose id, reason and output."""
    mine = _is(table, record_id)
    return _with(table, mine, {"record_id": None, "output": None, "reason": REASON})


def blanked(table: pa.Table, record_id: str) -> pa.Table:
    """Return a converted input in which the record's row is empty: rows are named by their place, so it must stay."""
    mine = _is(table, record_id)
    values = {name: None for name in table.column_names if name != "_line"}
    return _with(table, mine, {**values, "_failure": "missing_id", "_reason": REASON})


def letters_of(rows: list[dict[str, Any]], plan: Plan, snapshot: Snapshot) -> pa.Table:
    """Return a nameless dead letter for each of a record's result rows, so that the shard's records still add up."""
    made = []
    for row in rows:
        object_index, object_row = plan.shards[row["shard"]].locate(row["row"])
        known = {name: row.get(name) for name in DEAD_LETTER_SCHEMA.names}
        place = {"object_key": snapshot.objects[object_index].key, "object_row": object_row}
        say = {"record_id": None, "failure": FORGOTTEN, "reason": REASON, "output": None}
        made.append({**known, **place, **say, "failed_at": row["answered_at"]})
    return pa.Table.from_pylist(made, schema=DEAD_LETTER_SCHEMA)


def put_table(
    store: ObjectStore, old_key: str, table: pa.Table, *, row_group_size: int | None = None
) -> ReleasedObject:
    """Put a table beside the object that it replaces, under a key with its own digest; the footer is the table's."""
    data = write_parquet(table, footer={}, level=COMPACT_LEVEL, row_group_size=row_group_size)
    digest = digest_of_bytes(data)
    key = _DIGEST.sub(f"-{digest.removeprefix('sha256:')[:16]}.parquet", old_key)
    store.put_if_absent(key, data)
    return ReleasedObject(key=key, digest=digest, rows=table.num_rows)


def _is(table: pa.Table, record_id: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(table.column("record_id"), record_id), False)


def _with(table: pa.Table, mine: pa.ChunkedArray, values: dict[str, Any]) -> pa.Table:
    for name, value in values.items():
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        column = pc.if_else(mine, pa.scalar(value, field.type), table.column(index))
        table = table.set_column(index, field, column)
    return table
