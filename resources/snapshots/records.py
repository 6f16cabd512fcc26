"""One line of a CSV or JSON-lines source as a row of the converted Parquet."""

from __future__ import annotations

import re
from typing import NamedTuple

from batch_assets.domain.attempt import RecordFailure

LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Record(NamedTuple):
    """A row: what could be read of it, and why it cannot be used, if it cannot.

    An absent or blank id or text is no failure here: planning judges that for every format alike. `line` is 1-based.
    """

    line: int
    record_id: str | None
    text: str | None
    carry: tuple[str | None, ...]
    access: list[str] | None
    failure: str | None = None
    reason: str | None = None


def refuse(
    line: int, failure: type[RecordFailure], reason: str, columns: int, *, record_id: str | None = None
) -> Record:
    """Return a row of `columns` carried columns that is nothing but its place and the reason."""
    return Record(line, record_id, None, (None,) * columns, None, failure.name, f"line {line}: {reason}")
