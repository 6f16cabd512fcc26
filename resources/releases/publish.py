"""Publishing a version: gates, then one append (I3)."""

from __future__ import annotations

from dataclasses import replace

import duckdb

from batch_assets.domain.errors import GateRefused
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.ports import Beat, ObjectStore, ShardTable
from batch_assets.domain.release import Layer, ReleasedObject, check_base, is_current
from batch_assets.domain.validation import refusals
from resources.registry import Registry
from resources.releases.hidden import put_hidden
from resources.releases.log import Published, ReleaseLog
from resources.results.checks import run_checks


def publish_version(
    *,
    store: ObjectStore,
    registry: Registry,
    table: ShardTable,
    duck: duckdb.DuckDBPyConnection,
    job: str,
    version: str,
    reason: str,
    published_at: str,
    base: int | None = None,
    tombstones_key: str | None = None,
) -> Published:
    """Make a version what `current` reads, if every shard is done and no blocking check stands against it.

    The checks are made here again, from the stored objects, whatever a run said before. Nothing that a reader sees is
    written but the one release entry, so a crash anywhere leaves the old release or the new one. Publishing what is
    current already writes nothing and says so.

    Args:
        store: the result store.
        registry: where the version is registered.
        table: the shard table; believed about which objects finished shards have, which the checks then read.
        duck: a connection that can read the snapshot's objects.
        job: the job.
        version: the version.
        reason: what the log shows.
        published_at: ISO 8601 UTC.
        base: for a delta, the sequence of the release that its input was compared with: it becomes a layer over it.
        tombstones_key: for a delta, a Parquet object whose column `record_id` names the records that were deleted.

    Raises:
        UnknownVersion: the version is not registered.
        GateRefused: shards are missing, or a blocking check does not pass; the message has the numbers.
        BaseMoved: something was published since release `base`; compare again.
        ReleaseRaced: another publisher appended first.
        ObjectMissing, ObjectDamaged: the tombstones or the dead letters cannot be read.
    """
    registry.read(job, version)
    log = ReleaseLog(store, job)
    current = log.current()
    if current is not None and is_current([current], version, base):
        return Published(release=current, appended=False)
    if base is not None:
        check_base(job, current, base, log.get)  # before hours of checks, not only after them
    # From here on `gc` leaves the version alone (`ShardTable.remove`); if it was faster, the table has no rows of it.
    table.beat(_publishing(version))
    rows = table.shards(version)
    _check_done(job, version, rows, len(registry.plan(job, version).shards))
    checks = run_checks(store=store, registry=registry, duck=duck, job=job, version=version, shard_rows=rows)
    if found := refusals(checks):
        raise GateRefused(f"{job} {version} is not published: {'; '.join(found)}")
    if table.shards(version) != rows:
        raise GateRefused(f"{job} {version} is not published: its shards changed while they were checked; try again")
    layer = layer_of(version, rows)
    if base is not None:
        layer = replace(
            layer, hidden=put_hidden(store, job, layer, _lists(registry, job, version, rows, tombstones_key))
        )
    return log.publish(
        version,
        [layer],
        reason=reason,
        checks={check.name: f"{'passed' if check.passed else 'FAILED'}: {check.summary}" for check in checks},
        published_at=published_at,
        base=base,
    )


def layer_of(version: str, rows: list[ShardRow]) -> Layer:
    """Return the layer that a version's finished shards make, in order of shards."""
    outcomes = [row.outcome for row in sorted(rows, key=lambda row: row.shard) if row.outcome]
    return Layer(
        version=version,
        objects=tuple(
            ReleasedObject(key=outcome.result_key, digest=outcome.result_digest, rows=outcome.results)
            for outcome in outcomes
        ),
    )


def _lists(registry: Registry, job: str, version: str, rows: list[ShardRow], tombstones_key: str | None) -> list[str]:
    """Keys of the objects whose records have no row in the delta: dead letters, refused at planning, deleted."""
    dead = [row.outcome.dead_key for row in rows if row.outcome and row.outcome.dead_key]
    return [*dead, registry.refused_key(job, version), *([tombstones_key] if tombstones_key else [])]


def _publishing(version: str) -> Beat:
    """What a publisher says of itself."""
    return Beat(
        worker=f"publisher of {version}",
        version=version,
        state="publishing",
        records=0,
        records_per_s=0,
        tokens_per_s=0,
    )


def _check_done(job: str, version: str, rows: list[ShardRow], planned: int) -> None:
    done = sum(row.state is ShardState.DONE and row.outcome is not None for row in rows)
    if done != planned:
        pending = sum(row.pending_records for row in rows)
        raise GateRefused(
            f"{job} {version} is not published: {done} of {planned} shards are done, {pending:,} records are pending"
        )
