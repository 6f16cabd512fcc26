"""Layers of a few records, and what a reader must see of them: a dict that is updated layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import strategies as st

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.release import Layer, Release, ReleasedObject
from resources.releases.hidden import HIDDEN_SCHEMA, put_hidden
from resources.releases.log import ReleaseLog
from resources.results.parquet import write_parquet
from resources.results.table_schema import UNTRUSTED
from tests.results.world import JOB

NOON = "2026-03-01T12:00:00Z"
SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("summary", pa.string(), metadata=UNTRUSTED),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("job_version", pa.string(), nullable=False),
        pa.field("answered_at", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True)
class Night:
    """What one layer says: answers by record, records without a result, deleted records."""

    answers: Mapping[str, str]
    dead: frozenset[str] = field(default_factory=frozenset)
    deleted: frozenset[str] = field(default_factory=frozenset)


IDS = st.sampled_from([f"r{number}" for number in range(9)])
NIGHT = st.builds(
    Night,
    answers=st.dictionaries(IDS, st.sampled_from(["a", "b", "c"]), max_size=6),
    dead=st.frozensets(IDS, max_size=3),
    deleted=st.frozensets(IDS, max_size=3),
)


def modelled(nights: Sequence[Night]) -> dict[str, str]:
    """What readers must see after these nights, oldest first."""
    rows: dict[str, str] = {}
    for night in nights:
        for name in night.dead | night.deleted:
            rows.pop(name, None)
        rows.update(night.answers)
    return rows


def put(store: ObjectStore, key: str, table: pa.Table) -> ReleasedObject:
    """Put a table under a key."""
    data = write_parquet(table, footer={}, level=1)
    store.put_if_absent(key, data)
    return ReleasedObject(key=key, digest=digest_of_bytes(data), rows=table.num_rows)


def answers(version: str, rows: Iterable[tuple[str, str]]) -> pa.Table:
    """Rows of a version."""
    made = [
        {"record_id": name, "summary": text, "tags": [text, version], "job_version": version, "answered_at": None}
        for name, text in rows
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def put_layer(store: ObjectStore, version: str, night: Night, *, empty: bool = True) -> Layer:
    """Put a night's layer: its answers in two objects (none at all if there are none and not `empty`)."""
    rows = sorted(night.answers.items())
    pieces = [rows[::2], rows[1::2]] if rows or empty else []
    objects = tuple(
        put(store, f"results/{JOB}/{version}/shard={index:05d}.parquet", answers(version, piece))
        for index, piece in enumerate(pieces)
    )
    layer = Layer(version=version, objects=objects)
    lists = []
    for kind, names in (("dead", night.dead), ("deleted", night.deleted)):
        key = f"lists/{version}-{kind}-{'-'.join(sorted(names))}.parquet"
        put(store, key, pa.table([sorted(names)], schema=HIDDEN_SCHEMA))
        lists.append(key)
    hidden = put_hidden(store, JOB, layer, lists)
    return Layer(version=version, objects=objects, hidden=hidden)


def publish(store: ObjectStore, nights: Sequence[Night], names: Sequence[str] = ()) -> Release:
    """Publish nights, oldest first, each a delta over the release before; the first one is whole."""
    log = ReleaseLog(store, JOB)
    release = None
    for number, night in enumerate(nights):
        version = names[number] if names else f"v-{number}"
        layer = put_layer(store, version, night, empty=number == 0)
        base = None if release is None else release.sequence
        release = log.publish(version, [layer], reason="night", checks={}, published_at=NOON, base=base).release
    assert release is not None
    return release


def put_tombstones(store: ObjectStore, key: str, names: Sequence[str]) -> None:
    """Put an object of deleted records."""
    put(store, key, pa.table([list(names)], schema=HIDDEN_SCHEMA))
