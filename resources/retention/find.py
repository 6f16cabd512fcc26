"""Which stored objects hold one record, from their column of ids alone."""

from __future__ import annotations

import glob
from collections.abc import Iterable

import duckdb

from batch_assets.domain.ports import ObjectStore
from resources.duck import quote, quote_list

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
