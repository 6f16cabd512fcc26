"""Proving conservation from storage alone (I6): recount every object of a version, then hold it against the table.

What counts is what a reader or a successor would see: the compact objects of finished shards, the standing parts of
the others, and the records refused at planning. The shard table is only believed about which compact object a
finished shard has; its counts are compared. A part that was committed just before its worker died may not be in the
table's counts yet, so storage may be ahead of an unfinished shard's counts, never behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.errors import BatchError
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.part import is_dead_part
from batch_assets.domain.plan import Plan, Shard
from batch_assets.domain.ports import ObjectStore
from resources.results.parquet import fetch_parquet, read_parquet
from resources.results.staging import visible_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Counts made from the stored objects, and one sentence for each thing that does not fit.

    `duplicate_keys` are record ids with more than one visible result. `dead_letters` includes those of planning.
    """

    version: str
    records: int
    results: int
    dead_letters: int
    duplicate_keys: int
    disagreements: tuple[str, ...]

    @property
    def pending(self) -> int:
        """Records that are neither."""
        return self.records - self.results - self.dead_letters

    @property
    def clean(self) -> bool:
        """Whether everything fits."""
        return not self.disagreements and not self.duplicate_keys


@dataclass(slots=True)
class _Seen:
    """What one shard's objects hold: places in the shard with a result, with a dead letter, and the answered ids."""

    answered: set[int]
    buried: set[int]
    ids: list[str]


def audit_version(store: ObjectStore, job: str, plan: Plan, refused_key: str, shard_rows: Sequence[ShardRow]) -> Audit:
    """Recount a version. Memory grows with its record ids (about 100 bytes each)."""
    refused = _refused(store, refused_key)
    found: list[str] = []
    ids: list[pa.Array] = []
    results = dead = 0
    by_number = {row.shard: row for row in shard_rows}
    found += [f"shard {number:05d} is in the table and not in the plan" for number in by_number.keys() - _numbers(plan)]
    for shard in plan.shards:
        row = by_number.get(shard.index)
        if row is None:
            found.append(f"shard {shard.key} is in the plan and not in the table")
            dead += len(refused.get(shard.index, ()))
            continue
        seen, problems = _look(store, job, row)
        found += [f"shard {shard.key}: {problem}" for problem in problems]
        gone = refused.get(shard.index, set())
        found += [f"shard {shard.key}: {problem}" for problem in _compare(shard, row, seen, gone)]
        results += len(seen.answered)
        dead += len(seen.buried) + len(gone)
        ids.append(pa.array(seen.ids, pa.string()))
    everything = pa.chunked_array(ids, pa.string()) if ids else pa.chunked_array([pa.array([], pa.string())])
    return Audit(
        version=plan.version,
        records=plan.records,
        results=results,
        dead_letters=dead,
        duplicate_keys=len(everything) - len(everything.unique()),
        disagreements=tuple(found),
    )


def _numbers(plan: Plan) -> set[int]:
    return {shard.index for shard in plan.shards}


def _refused(store: ObjectStore, key: str) -> dict[int, set[int]]:
    table = fetch_parquet(store, key, ["shard", "row"])
    places: dict[int, set[int]] = {}
    for shard, row in zip(table.column("shard").to_pylist(), table.column("row").to_pylist(), strict=True):
        places.setdefault(shard, set()).add(row)
    return places


def _look(store: ObjectStore, job: str, row: ShardRow) -> tuple[_Seen, list[str]]:
    """Read a shard's visible objects: the compact ones if it is done, else the standing parts."""
    seen = _Seen(set(), set(), [])
    problems: list[str] = []
    outcome = row.outcome
    if row.state is ShardState.DONE and outcome is not None:
        live = [outcome.result_key]
        dead = [outcome.dead_key] if outcome.dead_key else []
    else:
        parts = visible_parts(store, job, row.version, row.shard) if row.epoch else ()
        live = [key for key in parts if not is_dead_part(key)]
        dead = [key for key in parts if is_dead_part(key)]
    digests = {outcome.result_key: outcome.result_digest, outcome.dead_key: outcome.dead_digest} if outcome else {}
    for key in (*live, *dead):
        try:
            data = store.get(key)
            if digests.get(key) not in {None, digest_of_bytes(data)}:
                problems.append(f"{key} does not have the digest {digests[key]}: its bytes were changed")
            table = read_parquet(data, key, ["row", "record_id"])
        except BatchError as error:
            problems.append(str(error))
            continue
        rows, names = table.column("row").to_pylist(), table.column("record_id").to_pylist()
        if key in dead:
            seen.buried.update(rows)
            continue
        # A row that stands in two parts is merged into one later: the first counts, as it will then.
        seen.ids += [name for place, name in zip(rows, names, strict=True) if place not in seen.answered]
        if row.state is ShardState.DONE and len(set(rows)) != len(rows):
            problems.append(f"{len(rows) - len(set(rows))} rows stand twice in its compact object")
        seen.answered.update(rows)
    seen.buried -= seen.answered
    return seen, problems


def _compare(shard: Shard, row: ShardRow, seen: _Seen, refused: set[int]) -> list[str]:
    """Hold what is stored against the plan and the table's counts."""
    problems = []
    stored = seen.answered | seen.buried
    if outside := sum(not 0 <= place < shard.records for place in stored):
        problems.append(f"{outside} rows lie outside of its {shard.records} records")
    if both := len(stored & refused):
        problems.append(f"{both} rows were refused at planning and have a result or dead letter")
    if len(refused) != shard.refused:
        problems.append(f"the plan refuses {shard.refused} records, {len(refused)} are stored as refused")
    if row.records != shard.records or row.refused != shard.refused:
        problems.append("the table has other record counts than the plan")
    counts = (len(seen.answered), len(seen.buried))
    said = (row.results, row.dead_letters)
    if row.state is ShardState.DONE and (counts != said or len(stored) + len(refused) != shard.records):
        problems.append(
            f"it is done with {said[0]} results and {said[1]} dead letters of {shard.records} records "
            f"({shard.refused} refused); stored are {counts[0]} and {counts[1]}"
        )
    if row.state is not ShardState.DONE and len(stored) < sum(said):
        problems.append(f"the table counts {sum(said)} committed records, only {len(stored)} are stored")
    return problems
