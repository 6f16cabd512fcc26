"""Between domain values and table rows, both ways; and the one value that says whether two plans are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import RowMapping

from batch_assets.domain.attempt import Tries
from batch_assets.domain.canonical import digest_of
from batch_assets.domain.lease import Outcome, ShardRow, ShardState
from batch_assets.domain.plan import Shard
from batch_assets.domain.ports import Beat, VersionCounts, WorkerRow


def shards_digest(job: str, shards: Sequence[Shard]) -> str:
    """Return the digest of a job's name and every field of its shards, in whatever order they are given."""
    rows = [
        [
            shard.index,
            shard.records,
            shard.refused,
            shard.estimated_tokens,
            [[piece.object_index, piece.start, piece.stop] for piece in shard.slices],
        ]
        for shard in sorted(shards, key=lambda shard: shard.index)
    ]
    return digest_of([job, rows])


def new_row(version: str, shard: Shard) -> ShardRow:
    """Return the row that registration adds for a shard."""
    return ShardRow(
        version=version,
        shard=shard.index,
        records=shard.records,
        refused=shard.refused,
        estimated_tokens=shard.estimated_tokens,
    )


def to_values(version: str, shard: Shard) -> dict[str, Any]:
    """Return the columns of a new row that differ between shards; the table's defaults are those of `ShardRow`."""
    return {
        "version": version,
        "shard": shard.index,
        "records": shard.records,
        "refused": shard.refused,
        "estimated_tokens": shard.estimated_tokens,
    }


def to_shard_row(row: RowMapping) -> ShardRow:
    """Read a row of the shard table."""
    return ShardRow(
        version=row["version"],
        shard=row["shard"],
        records=row["records"],
        refused=row["refused"],
        estimated_tokens=row["estimated_tokens"],
        state=ShardState(row["state"]),
        worker=row["worker"],
        expires_at_s=row["expires_at_s"],
        epoch=row["epoch"],
        unclean_ends=row["unclean_ends"],
        results=row["results"],
        dead_letters=row["dead_letters"],
        outcome=_to_outcome(row),
        finished_at_s=row["finished_at_s"],
    )


def _to_outcome(row: RowMapping) -> Outcome | None:
    if row["result_key"] is None:
        return None
    return Outcome(
        results=row["results"],
        dead_letters=row["dead_letters"],
        result_key=row["result_key"],
        result_digest=row["result_digest"],
        dead_key=row["dead_key"],
        dead_digest=row["dead_digest"],
        prompt_tokens=row["prompt_tokens"],
        cached_tokens=row["cached_tokens"],
        output_tokens=row["output_tokens"],
    )


def to_tries(row: RowMapping) -> Tries:
    """Read a record's failed tries."""
    return Tries(own=row["own"], infrastructure=row["infrastructure"], failure=row["failure"])


def to_counts(row: RowMapping) -> VersionCounts:
    """Read the aggregate of a version; PostgreSQL's sums of bigint are Decimal."""
    numbers = {key: int(value) for key, value in row.items() if key not in {"version", "cancelled"}}
    return VersionCounts(version=row["version"], cancelled=row["cancelled"], **numbers)


def to_worker_row(row: RowMapping) -> WorkerRow:
    """Read a worker's last beat."""
    fields = {key: value for key, value in row.items() if key != "beat_at_s"}
    return WorkerRow(beat=Beat(**fields), beat_at_s=row["beat_at_s"])
