"""The records that a delta knows and has no row of: what its layer hides in the layers below."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.part import hidden_key
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.release import Layer, ReleasedObject
from resources.results.parquet import COMPACT_LEVEL, fetch_many, fetch_parquet, write_parquet

HIDDEN_SCHEMA = pa.schema([pa.field("record_id", pa.string(), nullable=False)])


def put_hidden(store: ObjectStore, job: str, layer: Layer, lists: Sequence[str]) -> ReleasedObject | None:
    """Put the object of a layer's hidden records, sorted, and return what names it; None if there are none.

    A listed record that has a row in the layer is not hidden: a record that came twice with the same content has one
    dead letter and one answer. The same lists give the same object, so a second try changes nothing. Memory grows with
    the lists (some 40 bytes a record), not with the results.

    Args:
        store: the result store.
        job: the job.
        layer: the delta's results.
        lists: keys of Parquet objects with a column `record_id`; nulls in it are nobody.

    Raises:
        ObjectMissing, ObjectDamaged: an object cannot be read.
    """
    columns = [fetch_parquet(store, key, ["record_id"]).column("record_id").cast(pa.string()) for key in lists]
    ids = pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string())
    ids = ids.unique().drop_null()
    digests = {item.key: item.digest for item in layer.objects if item.rows}
    for _, table in fetch_many(store, digests if len(ids) else {}, ["record_id"]):
        if isinstance(table, Exception):
            raise table
        answered = table.column("record_id").combine_chunks().cast(pa.string())
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=answered)))
    if not len(ids):
        return None
    table = pa.table([ids.take(pc.sort_indices(ids))], schema=HIDDEN_SCHEMA)
    footer = {"job": job, "job_version": layer.version, "holds": "records that this layer knows and has no row of"}
    data = write_parquet(table, footer=footer, level=COMPACT_LEVEL)
    digest = digest_of_bytes(data)
    key = hidden_key(job, layer.version, digest)
    store.put_if_absent(key, data)
    return ReleasedObject(key=key, digest=digest, rows=table.num_rows)
