"""Parts for the load benchmark: real objects of results, made and put as a worker does it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from bookkeeping import make_spec

from batch_assets.domain.lease import Lease
from resources.result_store.store import open_result_store
from resources.results.staging import PartWriter
from resources.results.table_schema import result_schema


class PartSource:
    """Makes parts of one version, in a store below `folder`."""

    def __init__(self, folder: Path, job: str, version: str) -> None:
        self._store = open_result_store(str(folder / "store"))
        self._spec = replace(make_spec(folder / "source.parquet", None), name=job)
        self._schema = result_schema(self._spec)
        self._version = version
        self._writers: dict[tuple[int, int], PartWriter] = {}

    def commit(self, lease: Lease, rows: int) -> None:
        """Put the lease's next part, of `rows` rows."""
        place = (lease.shard, lease.epoch)
        writer = self._writers.setdefault(place, PartWriter(self._store, self._spec, lease))
        answered = [self._row(lease, number) for number in range(rows)]
        writer.commit(pa.Table.from_pylist(answered, schema=self._schema))

    def _row(self, lease: Lease, number: int) -> dict[str, Any]:
        seal = hashlib.sha256(f"{lease.shard}/{number}".encode()).hexdigest()
        return {
            "record_id": f"r{lease.shard * 5_000 + number:09d}",
            "category": "card",
            "summary": f"the customer asks about {seal[:40]}",
            "urgent": False,
            "job_version": self._version,
            "recipe_digest": self._spec.recipe_digest,
            "model_digest": self._spec.model.digest,
            "shard": lease.shard,
            "row": number,
            "epoch": lease.epoch,
            "worker": lease.worker,
            "attempts": 1,
            "infrastructure_losses": 0,
            "finish_reason": "stop",
            "prompt_tokens": 260,
            "cached_tokens": 0,
            "output_tokens": 45,
            "output_sha256": seal,
            "answered_at": datetime.fromtimestamp(1_800_000_000 + number, tz=UTC),
        }
