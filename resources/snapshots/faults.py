"""Values of a Parquet source that cannot be used, found a column at a time: a good batch costs one pass of Arrow."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from batch_assets.domain.attempt import InvalidColumn, InvalidId, InvalidText, RecordFailure
from batch_assets.domain.spec import InputColumns
from resources.snapshots.types import LABELS, TEXT

_REASON = "column {} holds bytes that are not UTF-8"


def find_faults(batch: pa.RecordBatch, columns: InputColumns) -> tuple[pa.RecordBatch, pa.Array, pa.Array]:
    """Return the batch (`record_id`, `text`, `carry:...`, `access`) with unusable values made null, failure, reason."""
    failures: dict[int, tuple[type[RecordFailure], str]] = {}
    arrays = list(batch.columns)
    named = [(columns.id, InvalidId), (columns.text, InvalidText), *((name, InvalidColumn) for name in columns.carry)]
    for place, (name, failure) in enumerate(named):
        bad = set(_not_utf8(arrays[place]))
        if bad:
            arrays[place] = _without(arrays[place], bad)
            for row in bad:
                failures.setdefault(row, (failure, _REASON.format(name)))
    for row, reason in _bad_labels(arrays[-1], columns.access or ""):
        failures.setdefault(row, (InvalidColumn, reason))
    if columns.access and failures:
        arrays[-1] = _without_lists(arrays[-1], set(failures))
    names = [failures[row][0].name if row in failures else None for row in range(batch.num_rows)] if failures else []
    reasons = [failures[row][1] if row in failures else None for row in range(batch.num_rows)] if failures else []
    nothing = pa.nulls(batch.num_rows, pa.string())
    return (
        pa.RecordBatch.from_arrays(arrays, schema=batch.schema),
        pa.array(names, pa.string()) if failures else nothing,
        pa.array(reasons, pa.string()) if failures else nothing,
    )


def _not_utf8(array: pa.Array) -> Iterator[int]:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(array.cast(pa.large_binary()).to_pylist()):
            if value is not None and not _is_utf8(value):
                yield row


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without(array: pa.Array, bad: set[int]) -> pa.Array:
    raw = array.cast(pa.large_binary()).to_pylist()
    return pa.array([None if row in bad else value for row, value in enumerate(raw)], pa.large_binary()).cast(TEXT)


def _bad_labels(lists: pa.Array, name: str) -> Iterator[tuple[int, str]]:
    """Find lists with a null or with bytes that are not UTF-8: such labels cannot be inherited whole (I9)."""
    labels, parents = lists.flatten(), pc.list_parent_indices(lists)
    bad = set(_not_utf8(labels))
    for place in bad:
        yield parents[place].as_py(), _REASON.format(name)
    if labels.null_count:
        for row in pc.unique(parents.filter(labels.is_null())).to_pylist():
            yield row, f"column {name} has a label that is null"


def _without_lists(lists: pa.Array, bad: set[int]) -> pa.Array:
    keep = pa.array([None if row in bad else row for row in range(len(lists))], pa.int64())
    return lists.take(keep).cast(LABELS)
