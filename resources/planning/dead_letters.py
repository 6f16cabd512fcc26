"""The refused records of a plan as dead letters: each with its class, its exact reason and its provenance (I10)."""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import JobSpec
from resources.planning import statements
from resources.results.table_schema import DEAD_LETTER_SCHEMA

PLANNER = "planner"
_NAMED = 3
_BATCH_ROWS = 65_536


def write_refused(database: duckdb.DuckDBPyConnection, spec: JobSpec, snapshot: Snapshot, version: str) -> bytes:
    """Return the scratch database's refused records as Parquet, by shard and row.

    They were never tried: epoch and attempts are 0, and `finish_reason`, `output` and `failed_at` are null, so that
    planning again gives the same bytes.
    """
    reasons = _Reasons(spec, snapshot)
    constants = {
        "job_version": version,
        "recipe_digest": spec.recipe_digest,
        "model_digest": spec.model.digest,
        "epoch": 0,
        "worker": PLANNER,
        "attempts": 0,
        "infrastructure_losses": 0,
        "prompt_tokens": 0,
        "output_tokens": 0,
    }
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, DEAD_LETTER_SCHEMA, compression="zstd") as writer:
        for batch in database.execute(statements.READ_REFUSED).to_arrow_reader(_BATCH_ROWS):
            writer.write_batch(_letters(batch, spec.shard_size, constants, reasons))
    return sink.getvalue()


def _letters(batch: pa.RecordBatch, shard_size: int, constants: dict[str, Any], reasons: _Reasons) -> pa.RecordBatch:
    places = batch.column("place").to_numpy()
    keys, rows = reasons.sources.locate(places)
    columns: dict[str, pa.Array] = {
        "record_id": batch.column("record_id").cast(pa.string()),
        "object_key": keys,
        "object_row": rows,
        "failure": batch.column("failure"),
        "reason": pa.array(map(reasons.of, batch.to_pylist()), pa.string()),
        "shard": pa.array(places // shard_size, pa.int32()),
        "row": pa.array(places % shard_size, pa.int32()),
    }
    arrays = []
    for field in DEAD_LETTER_SCHEMA:
        if field.name in columns:
            arrays.append(columns[field.name].cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(constants.get(field.name), field.type), batch.num_rows))
    return pa.RecordBatch.from_arrays(arrays, schema=DEAD_LETTER_SCHEMA)


class _Sources:
    """Where in the source a place of the snapshot is."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._names = [item.key for item in snapshot.objects]
        self._keys = pa.array(self._names, pa.string())
        self._starts = np.cumsum([0, *(item.rows for item in snapshot.objects)], dtype=np.int64)
        self._first_places: list[int] = self._starts.tolist()

    def locate(self, places: npt.NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
        """Return the object's key and the row in it, 0-based, of each place."""
        indexes = np.searchsorted(self._starts, places, side="right") - 1
        return self._keys.take(pa.array(indexes)), pa.array(places - self._starts[indexes])

    def locate_one(self, place: int) -> tuple[str, int]:
        """Return what `locate` does for one place, without arrays: a reason names up to three."""
        index = bisect_right(self._first_places, place) - 1
        return self._names[index], place - self._first_places[index]


class _Reasons:
    """One sentence for each refused record. No text of a record is quoted: reasons reach logs."""

    def __init__(self, spec: JobSpec, snapshot: Snapshot) -> None:
        self._columns = spec.input.columns
        self._limit = spec.limits.input_tokens_max
        self.sources = _Sources(snapshot)

    def of(self, row: dict[str, Any]) -> str:
        if row["reason"] is not None:
            return str(row["reason"])
        match row["failure"]:
            case "missing_id":
                return f"column {self._columns.id} is null, not there, or holds nothing visible"
            case "empty_text":
                return f"column {self._columns.text} is null, not there, or holds nothing visible"
            case "over_length":
                return f"the text has {row['tokens']} tokens or more; limits.input_tokens_max is {self._limit}"
            case "duplicate_id":
                return f"the same id and content as {self._where(row['places'][0], row['lines'][0])}, which is answered"
        others = [pair for pair in zip(row["places"], row["lines"], strict=True) if pair[0] != row["place"]][:_NAMED]
        named = ", ".join(self._where(place, line) for place, line in others)
        more = row["members"] - 1 - len(others)
        return f"the same id with other content at {named}" + (f" and {more} more rows" if more else "")

    def _where(self, place: int, line: int) -> str:
        key, row = self.sources.locate_one(place)
        return f"line {line} of {key.partition('#')[0]}" if line >= 0 else f"row {row} of {key}"
