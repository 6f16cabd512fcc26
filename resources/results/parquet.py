"""Tables as bytes of one Parquet object and back: every object of results says in its footer what made it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.errors import ObjectDamaged, ObjectMissing
from batch_assets.domain.ports import ObjectStore

PART_LEVEL = 1  # a part lives for minutes: 400 rows cost about 3 ms
COMPACT_LEVEL = 6  # a compact result is read for years


def write_parquet(
    table: pa.Table, *, footer: Mapping[str, str], level: int, row_group_size: int | None = None
) -> bytes:
    """Return the table as zstd Parquet; `footer` stands beside the schema, whose field metadata is kept.

    The same table, footer and library give the same bytes, so a second try of a put is recognized as our own.
    """
    known = table.schema.metadata or {}
    tagged = table.replace_schema_metadata({**known, **{name: value for name, value in footer.items() if value}})
    sink = io.BytesIO()
    pq.write_table(tagged, sink, compression="zstd", compression_level=level, row_group_size=row_group_size)
    return sink.getvalue()


def read_parquet(data: bytes, key: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the table (some columns of it) in an object's bytes; `key` is for the message.

    Raises:
        ObjectDamaged: the bytes are not Parquet, or a column is not there.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            missing = sorted(set(columns or ()) - set(file.schema_arrow.names))
            if missing:
                raise ObjectDamaged(f"{key} has no column {', '.join(missing)}")
            return file.read(columns=list(columns) if columns else None, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ObjectDamaged(f"{key} is not readable Parquet: {error}") from error


def fetch_parquet(store: ObjectStore, key: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the table (some columns of it) under a key.

    Raises:
        ObjectMissing: there is no such object. ObjectDamaged: it is not readable.
    """
    return read_parquet(store.get(key), key, columns)


AHEAD = 32  # objects in memory at once: a compact result is about 1 MB
THREADS = 8


def fetch_many(
    store: ObjectStore, digests: Mapping[str, str], columns: Sequence[str] | None = None
) -> Iterator[tuple[str, pa.Table | ObjectMissing | ObjectDamaged]]:
    """Yield (key, table) of each object of `digests` (key to `sha256:` digest) in order, or (key, what is wrong).

    Every object is read once, whole, and its bytes are compared with its digest. Memory is bounded by `AHEAD` objects.
    """

    def fetch(key: str) -> pa.Table | ObjectMissing | ObjectDamaged:
        try:
            data = store.get(key)
            if digest_of_bytes(data) != digests[key]:
                return ObjectDamaged(f"{key} does not have the digest {digests[key]}")
            return read_parquet(data, key, columns)
        except (ObjectMissing, ObjectDamaged) as error:
            return error

    keys = list(digests)
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(keys), AHEAD):
            window = keys[start : start + AHEAD]
            yield from zip(window, pool.map(fetch, window), strict=True)
