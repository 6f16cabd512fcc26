"""What a source said, kept by id and content hash for the night after: a table that is written over is gone by then.

CSV and JSON lines are converted, and the copies stay; a Parquet source is read where it lies, and may be replaced. So
its contents are kept in the result store, 16 bytes and the id a record, below
`snapshots/<digest of what was read and how>/`:

    contents-<number>-<digest>.parquet   columns of `CONTENTS_SCHEMA`, by place
    manifest.json                        names them; put last
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.canonical import canonical_json, digest_of, digest_of_bytes, short
from batch_assets.domain.errors import ObjectConflict, ObjectDamaged
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns

FORM = 1  # raised when `diff_statements` hashes otherwise
OBJECT_ROWS = 2_000_000

# `place` is the row's number in the snapshot, 0-based; the hash's upper and lower half are numbers of 64 bits.
CONTENTS_SCHEMA = pa.schema(
    [
        ("place", pa.int64()),
        ("record_id", pa.string()),
        ("has_id", pa.bool_()),
        ("high", pa.uint64()),
        ("low", pa.uint64()),
    ]
)


def may_vanish(snapshot: Snapshot) -> bool:
    """Say whether a snapshot has objects that are not in the result store, which somebody may replace."""
    return any(item.rows and not item.converted for item in snapshot.objects)


def write_contents(
    store: ObjectStore,
    snapshot: Snapshot,
    columns: InputColumns,
    prompt_fields: Sequence[str],
    batches: Iterable[pa.RecordBatch],
) -> None:
    """Keep a snapshot's contents, given by place as `CONTENTS_SCHEMA`; one object is in memory at a time."""
    prefix = _prefix(snapshot, columns, prompt_fields)
    manifest = {"snapshot": snapshot.digest, "objects": list(_put_all(store, prefix, batches))}
    try:
        store.put_if_absent(f"{prefix}/manifest.json", canonical_json(manifest).encode())
    except ObjectConflict:  # somebody with another Parquet library was first: theirs say the same
        return


def read_contents(
    store: ObjectStore, snapshot: Snapshot, columns: InputColumns, prompt_fields: Sequence[str]
) -> Iterator[pa.RecordBatch] | None:
    """Return what was kept of a snapshot as `CONTENTS_SCHEMA`, or None if nothing was, under these columns and prompt.

    Raises:
        ObjectDamaged, ObjectMissing: an object is not the one that was kept (while the batches are read).
    """
    key = f"{_prefix(snapshot, columns, prompt_fields)}/manifest.json"
    if store.head(key) is None:
        return None
    return _read_all(store, orjson.loads(store.get(key))["objects"])


def _prefix(snapshot: Snapshot, columns: InputColumns, prompt_fields: Sequence[str]) -> str:
    read = {"columns": asdict(columns), "prompt": list(dict.fromkeys(prompt_fields))}
    return f"snapshots/{short(digest_of({'contents': FORM, 'snapshot': snapshot.digest, **read}), 32)}"


def _put_all(store: ObjectStore, prefix: str, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, str]]:
    rest = iter(batches)
    for number, head in enumerate(rest):
        sink, rows, batch = io.BytesIO(), 0, head
        with pq.ParquetWriter(sink, CONTENTS_SCHEMA, compression="zstd", use_dictionary=False) as writer:
            writer.write_batch(batch)
            rows += batch.num_rows
            while rows < OBJECT_ROWS and (batch := next(rest, None)) is not None:
                writer.write_batch(batch)
                rows += batch.num_rows
        data = sink.getvalue()
        digest = digest_of_bytes(data)
        key = f"{prefix}/contents-{number:05d}-{short(digest, 32)}.parquet"
        store.put_if_absent(key, data)
        yield {"key": key, "digest": digest}


def _read_all(store: ObjectStore, objects: Sequence[dict[str, str]]) -> Iterator[pa.RecordBatch]:
    for item in objects:
        data = store.get(item["key"])
        if digest_of_bytes(data) != item["digest"]:
            raise ObjectDamaged(f"{item['key']} does not have the digest {item['digest']}: delete it and its manifest")
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            yield from file.iter_batches(65_536, use_threads=False)
