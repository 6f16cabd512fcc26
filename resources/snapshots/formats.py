"""Which format a file has, by the ending of its name."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How a source's files are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


ENDINGS = {".parquet": Format.PARQUET, ".csv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL}
COMPRESSED = ".gz"


def format_of(key: str) -> Format | None:
    """Return a file's format, or None if its name has no known ending; CSV and JSON lines may be gzipped."""
    name = key.lower()
    for ending, kind in ENDINGS.items():
        if name.endswith(ending) or (kind is not Format.PARQUET and name.endswith(ending + COMPRESSED)):
            return kind
    return None


def is_compressed(key: str) -> bool:
    """Say whether a file is gzipped."""
    return key.lower().endswith(COMPRESSED)
