"""Publishing a version: gates, then one append (I3)."""

from __future__ import annotations

import duckdb

from batch_assets.domain.errors import GateRefused
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.ports import ObjectStore, ShardTable
from batch_assets.domain.release import Layer, ReleasedObject
from batch_assets.domain.validation import refusals
from resources.registry import Registry
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
) -> Published:
    """Make a version what `current` reads, if every shard is done and no blocking check stands against it.

    The checks are made here again, from the stored objects, whatever a run said before. Nothing is written but the
    one release entry, so a crash anywhere leaves the old release or the new one. Publishing what is current already
    writes nothing and says so.

    Args:
        store: the result store.
        registry: where the version is registered.
        table: the shard table; believed about which objects finished shards have, which the checks then read.
        duck: a connection that can read the snapshot's objects.
        job: the job.
        version: the version.
        reason: what the log shows.
        published_at: ISO 8601 UTC.

    Raises:
        UnknownVersion: the version is not registered.
        GateRefused: shards are missing, or a blocking check does not pass; the message has the numbers.
        ReleaseRaced: another publisher appended first.
    """
    registry.read(job, version)
    log = ReleaseLog(store, job)
    current = log.current()
    if current is not None and current.version == version:
        return Published(release=current, appended=False)
    rows = table.shards(version)
    _check_done(job, version, rows, len(registry.plan(job, version).shards))
    checks = run_checks(store=store, registry=registry, duck=duck, job=job, version=version, shard_rows=rows)
    if found := refusals(checks):
        raise GateRefused(f"{job} {version} is not published: {'; '.join(found)}")
    return log.publish(
        version,
        [layer_of(version, rows)],
        reason=reason,
        checks={check.name: f"{'passed' if check.passed else 'FAILED'}: {check.summary}" for check in checks},
        published_at=published_at,
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


def _check_done(job: str, version: str, rows: list[ShardRow], planned: int) -> None:
    done = sum(row.state is ShardState.DONE and row.outcome is not None for row in rows)
    if done != planned:
        pending = sum(row.pending_records for row in rows)
        raise GateRefused(
            f"{job} {version} is not published: {done} of {planned} shards are done, {pending:,} records are pending"
        )
