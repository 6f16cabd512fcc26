"""A DuckDB database on disk that is filled from Arrow in bounded memory, used once and thrown away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

FILL_BYTES = 32 << 20

# Nothing but separators, controls and format characters (zero-width ones, marks of direction, tags): nothing visible.
# Most texts begin with a printable ASCII character, which a comparison of bytes shows without a regular expression.
_BLANK = r"""
CASE WHEN {0} >= '!' AND {0} < chr(127) THEN false
     ELSE {0} IS NULL OR regexp_full_match({0}, '[\p{{Z}}\p{{Cc}}\p{{Cf}}]*', 's') END
"""


def blank_sql(column: str) -> str:
    """Return the SQL condition that a column of text is null or shows nothing; `column` is SQL already."""
    return _BLANK.format(column)


def identifier(name: str) -> str:
    """Return a column's name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def open_scratch(folder: Path, memory_limit: str, threads: int | None) -> duckdb.DuckDBPyConnection:
    """Return a database in `folder`, which is the caller's to remove; beyond `memory_limit` it spills there."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_limit,
        "temp_directory": str(folder / "spilled"),
        "preserve_insertion_order": False,
    }
    if threads is not None:
        config["threads"] = threads
    database = duckdb.connect(str(folder / "scratch.duckdb"), config=config)
    # The tables are read two or three times and thrown away: compressing them took half of the planning's time.
    database.execute("PRAGMA force_compression = 'uncompressed'")
    return database


def fills(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Put batches together to tables of bounded size: one statement over all would hold them all to its end.

    The last table may be empty, so that there always is one.
    """
    gathered: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        gathered.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= FILL_BYTES:
            yield pa.Table.from_batches(gathered, schema=schema)
            gathered, size_bytes = [], 0
    yield pa.Table.from_batches(gathered, schema=schema)
