"""Which stored objects hold one record, from their column of ids alone."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterable
from contextlib import suppress

import duckdb

from batch_assets.domain.part import shard_of, shard_prefix
from batch_assets.domain.ports import ObjectStore
from resources.duck import quote, quote_list
from resources.registry import RegisteredVersion

_FILES_AT_ONCE = 1_000


def holders(
    duck: duckdb.DuckDBPyConnection, uris: Iterable[str], record_id: str, column: str = "record_id"
) -> set[str]:
    """Return the addresses, of these, of Parquet objects that have a row of the record. Memory stays small."""
    listed = sorted(uris)
    found: set[str] = set()
    name = '"' + column.replace('"', '""') + '"'
    for start in range(0, len(listed), _FILES_AT_ONCE):
        files = quote_list(glob.escape(uri) for uri in listed[start : start + _FILES_AT_ONCE])
        query = f"SELECT DISTINCT filename FROM read_parquet({files}, filename = true) WHERE CAST({name} AS VARCHAR) = "
        found.update(str(row[0]) for row in duck.execute(query + quote(record_id)).fetchall())
    return found


def holding_keys(duck: duckdb.DuckDBPyConnection, store: ObjectStore, keys: Iterable[str], record_id: str) -> set[str]:
    """Return the keys, of these, of objects of the store that have a row of the record."""
    by_uri = {store.uri(key): key for key in keys if key.endswith(".parquet")}
    return {by_uri[uri] for uri in holders(duck, by_uri, record_id)}


def converted_keys(store: ObjectStore, entry: RegisteredVersion) -> set[str]:
    """Return the keys of a version's converted inputs in this store."""
    root = store.uri("snapshots")
    uris = (item.data_uri for item in entry.snapshot.objects)
    return {"snapshots" + uri.removeprefix(root) for uri in uris if uri.startswith(root)}


def with_company(store: ObjectStore, held: Collection[str]) -> set[str]:
    """Return the keys of `held`, of the rest of those finished shards' staging, and of those conversions' manifests.

    Without its manifest a conversion is made anew from the source, which may hold the record or not.
    """
    gone = set(held)
    for key in held:
        if key.startswith("snapshots/"):
            gone.add(f"{key.rpartition('/')[0]}/manifest.json")
        elif key.startswith("staging/"):
            _, job, version, *_ = key.split("/")
            gone |= {item.key for item in store.list(shard_prefix(job, version, shard_of(key)))}
    return gone


def own_sources(
    duck: duckdb.DuckDBPyConnection,
    store: ObjectStore,
    entries: Iterable[RegisteredVersion],
    held: Collection[str],
    record_id: str,
) -> tuple[str, ...]:
    """Return the user's own Parquet files that hold the record; text formats are named by their conversion."""
    found: set[str] = set()
    chunks = {store.uri(key) for key in held if key.startswith("snapshots/")}
    for entry in entries:
        objects = entry.snapshot.objects
        found |= {f"{entry.snapshot.uri} ({item.key})" for item in objects if item.data_uri in chunks}
        own = {item.data_uri for item in objects if not item.converted}
        with suppress(duckdb.Error):  # a source that is gone or unreadable holds nothing that anybody can read here
            found |= holders(duck, own - found, record_id, entry.spec.input.columns.id)
    return tuple(sorted(found))
