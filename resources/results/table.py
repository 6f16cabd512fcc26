"""A version's results and dead letters as tables, while it runs and after."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from batch_assets.domain.lease import Outcome, ShardRow, ShardState
from batch_assets.domain.part import is_dead_part
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.spec import JobSpec
from resources.results.scan import ObjectScanner
from resources.results.staging import visible_parts
from resources.results.table_schema import DEAD_LETTER_SCHEMA, result_schema

_PLACE = ["shard", "row"]


def scan_version(
    store: ObjectStore,
    scanner: ObjectScanner,
    spec: JobSpec,
    version: str,
    shard_rows: Sequence[ShardRow],
    *,
    partial: bool = False,
) -> pl.LazyFrame:
    """Return a version's results: one row a record, in order of shards.

    Args:
        store: the result store, for listings.
        scanner: opens objects of it.
        spec: the version's spec, for the columns of an empty table.
        version: the version.
        shard_rows: the shard table's rows of the version.
        partial: also what is committed in shards that are not finished. A preview: what it shows of a shard is what
            stands when it is called, and a row may still lose to an older commit.
    """
    finished = scanner.scan([outcome.result_key for outcome in _outcomes(shard_rows)], result_schema(spec))
    if not partial:
        return finished
    parts = [key for key in _standing(store, spec.name, version, shard_rows) if not is_dead_part(key)]
    return pl.concat([finished, _first_of_each(scanner.scan(parts, result_schema(spec)))])


def scan_dead_letters(
    store: ObjectStore,
    scanner: ObjectScanner,
    spec: JobSpec,
    version: str,
    shard_rows: Sequence[ShardRow],
    refused_key: str,
) -> pl.LazyFrame:
    """Return a version's dead letters so far: refused at planning, of finished shards, and standing in others.

    A row that has a result, too, is not among them.
    """
    outcomes = _outcomes(shard_rows)
    keys = [refused_key, *(outcome.dead_key for outcome in outcomes if outcome.dead_key)]
    final = scanner.scan(keys, DEAD_LETTER_SCHEMA)
    parts = _standing(store, spec.name, version, shard_rows)
    standing = _first_of_each(scanner.scan([key for key in parts if is_dead_part(key)], DEAD_LETTER_SCHEMA))
    answered = scanner.scan([key for key in parts if not is_dead_part(key)], result_schema(spec)).select(_PLACE)
    return pl.concat([final, standing.join(answered, on=_PLACE, how="anti")])


def _outcomes(shard_rows: Sequence[ShardRow]) -> list[Outcome]:
    ordered = sorted(shard_rows, key=lambda row: row.shard)
    return [row.outcome for row in ordered if row.state is ShardState.DONE and row.outcome]


def _standing(store: ObjectStore, job: str, version: str, shard_rows: Sequence[ShardRow]) -> list[str]:
    open_shards = sorted(row.shard for row in shard_rows if row.state is not ShardState.DONE and row.epoch > 0)
    return [key for shard in open_shards for key in visible_parts(store, job, version, shard)]


def _first_of_each(frame: pl.LazyFrame) -> pl.LazyFrame:
    return frame.unique(subset=_PLACE, keep="first", maintain_order=True)
