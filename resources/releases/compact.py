"""Compaction: the layers of the current release folded into one, with the same rows, in objects of the usual size.

Which rows are superseded is decided on record ids alone, by DuckDB, which spills beyond its memory limit; the rows are
then taken from the objects untouched, as a shard's merge does it, so no value and no column tag passes through another
type system. Nothing is deleted: readers of the old layers go on reading, and retention deletes them later.
"""

from __future__ import annotations

import glob
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import duckdb
import numpy as np
import pyarrow as pa

from batch_assets.domain.canonical import canonical_json, digest_of, digest_of_bytes, short
from batch_assets.domain.errors import ConservationBroken, ObjectDamaged
from batch_assets.domain.part import compacted_key
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.release import Layer, Release, ReleasedObject
from batch_assets.domain.retention import COMPACTED
from resources.duck import quote_list
from resources.releases.log import Published, ReleaseLog
from resources.results.parquet import COMPACT_LEVEL, fetch_many, write_parquet

_WRITERS = 4

_CREATE = """
    CREATE OR REPLACE TEMP TABLE known (record_id VARCHAR);
    CREATE OR REPLACE TEMP TABLE superseded (layer INT, name VARCHAR, place BIGINT);
"""
_SUPERSEDED = """
    INSERT INTO superseded SELECT ?, parse_path(filename)[-1], file_row_number
    FROM read_parquet({files}, filename = true, file_row_number = true) SEMI JOIN known USING (record_id)
"""
_KNOWN = "INSERT INTO known SELECT record_id FROM read_parquet({files})"
_OF_OBJECT = "SELECT place FROM superseded WHERE layer = ? AND name = ? ORDER BY place"


def compact(
    store: ObjectStore, duck: duckdb.DuckDBPyConnection, job: str, *, rows_per_object: int, published_at: str
) -> Published | None:
    """Fold the layers of a job's current release into one and append it; None if there is nothing to fold.

    Objects are put before the release that names them, so a crash anywhere leaves the old release or the new one, and
    what it left is collected by retention. Memory is bounded by DuckDB's limit and 64 objects.

    Args:
        store: the result store.
        duck: a connection that reads the store's objects.
        job: the job.
        rows_per_object: rows of each object but the last.
        published_at: ISO 8601 UTC.

    Raises:
        ReleaseRaced: somebody published meanwhile; nothing was changed, and the next compaction folds that, too.
        ObjectMissing, ObjectDamaged: an object of the release cannot be read. ConservationBroken: the rows do not add
            up. Nothing is published then.
    """
    log = ReleaseLog(store, job)
    release = log.current()
    if release is None or len(release.layers) <= 1:
        return None
    # A try of its own has a folder of its own: retention may delete what an older one left at this very moment.
    folded = [[item.key for item in layer.named] for layer in release.layers]
    name = COMPACTED + short(digest_of({"layers": folded, "at": published_at}))
    folds = tuple(dict.fromkeys(part for layer in release.layers for part in (layer.folds or (layer.version,))))
    footer = {
        "job": job,
        "compacts": f"release {release.sequence} of {job}",
        "folded_layers": canonical_json([layer.version for layer in release.layers]),
        "folds": canonical_json(list(folds)),
    }
    cursor = duck.cursor()  # its own temporary tables: nothing is left in the caller's connection
    try:
        left = release.rows - _find_superseded(cursor, store, release)
        tables = _cut(_surviving(cursor, store, release), rows_per_object)
        objects = _put_all(store, tables, footer, lambda number, digest: compacted_key(job, name, number, digest))
    finally:
        cursor.execute("DROP TABLE IF EXISTS known; DROP TABLE IF EXISTS superseded")
        cursor.close()
    if sum(item.rows for item in objects) != left:
        raise ConservationBroken(
            f"{job}: {sum(item.rows for item in objects):,} rows were folded of release {release.sequence}, "
            f"which shows {left:,}; nothing is published"
        )
    return log.succeed(
        release,
        [Layer(version=name, objects=tuple(objects), folds=folds)],
        reason=f"compaction: {len(release.layers)} layers of release {release.sequence} in one",
        published_at=published_at,
        compacts=release.sequence,
    )


def _find_superseded(cursor: duckdb.DuckDBPyConnection, store: ObjectStore, release: Release) -> int:
    """Fill the table of rows that a newer layer knows; return how many there are."""
    cursor.execute(_CREATE)
    for number, layer in enumerate(release.layers):
        here = [item.key for item in layer.objects]
        if here and number:
            cursor.execute(_SUPERSEDED.format(files=_files(store, here)), [number])
        for keys in (here, [layer.hidden.key] if layer.hidden else []):
            if keys and layer is not release.layers[-1]:
                cursor.execute(_KNOWN.format(files=_files(store, keys)))
    row = cursor.execute("SELECT count(*) FROM superseded").fetchone()
    return int(row[0]) if row else 0


def _surviving(cursor: duckdb.DuckDBPyConnection, store: ObjectStore, release: Release) -> Iterator[pa.Table]:
    """Yield each object's rows that readers see, in order of layers and objects; all with the first one's columns."""
    schema: pa.Schema | None = None
    for number, layer in enumerate(release.layers):
        for key, table in fetch_many(store, {item.key: item.digest for item in layer.objects}):
            if isinstance(table, Exception):
                raise table
            schema = schema or table.schema.remove_metadata()
            if not table.schema.equals(schema):
                raise ObjectDamaged(f"{key} has other columns than the newer layers: publish a whole version instead")
            gone = cursor.execute(_OF_OBJECT, [number, key.rpartition("/")[2]]).fetchnumpy()["place"]
            if len(gone):
                keep = np.ones(table.num_rows, dtype=bool)
                keep[gone] = False
                table = table.filter(pa.array(keep))  # noqa: PLW2901
            yield table


def _cut(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of `rows` rows; the last one may be smaller, and is there even if it is empty."""
    waiting: pa.Table | None = None
    first = True
    for table in tables:
        waiting = table if waiting is None else pa.concat_tables([waiting, table])
        while waiting.num_rows >= rows:
            yield waiting.slice(0, rows).combine_chunks()
            waiting, first = waiting.slice(rows), False
    if waiting is not None and (waiting.num_rows or first):
        yield waiting.combine_chunks()


def _put_all(
    store: ObjectStore, tables: Iterable[pa.Table], footer: dict[str, str], key_of: Callable[[int, str], str]
) -> list[ReleasedObject]:
    """Put each table as an object, several at a time: compressing is most of the work, and it needs no lock."""

    def put(number: int, table: pa.Table) -> ReleasedObject:
        data = write_parquet(table, footer=footer, level=COMPACT_LEVEL)
        digest = digest_of_bytes(data)
        key = key_of(number, digest)
        store.put_if_absent(key, data)
        return ReleasedObject(key=key, digest=digest, rows=table.num_rows)

    done: list[ReleasedObject] = []
    waiting: deque[Future[ReleasedObject]] = deque()
    with ThreadPoolExecutor(_WRITERS) as pool:
        for number, table in enumerate(tables):
            waiting.append(pool.submit(put, number, table))
            if len(waiting) > _WRITERS:
                done.append(waiting.popleft().result())
        done += [future.result() for future in waiting]
    return done


def _files(store: ObjectStore, keys: Iterable[str]) -> str:
    return quote_list(glob.escape(store.uri(key)) for key in keys)  # DuckDB takes every path for a pattern
