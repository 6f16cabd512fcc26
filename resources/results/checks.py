"""The gates of a version, in order: coverage, then schema."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from batch_assets.domain.lease import ShardRow
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.validation import CheckResult
from resources.registry import Registry
from resources.results.coverage import measure_coverage
from resources.results.table_check import check_table


def run_checks(
    *,
    store: ObjectStore,
    registry: Registry,
    duck: duckdb.DuckDBPyConnection,
    job: str,
    version: str,
    shard_rows: Sequence[ShardRow],
) -> list[CheckResult]:
    """Check a version from what is stored. `spec.gates` says which verdicts block publishing.

    Args:
        store: the result store.
        registry: where the version is registered.
        duck: a connection that can read the snapshot's objects.
        job: the job.
        version: the version.
        shard_rows: the shard table's rows of the version; shards that are not done fail coverage.

    Raises:
        UnknownVersion: the version is not registered.
    """
    entry = registry.read(job, version)
    plan = registry.plan(job, version)
    gates = entry.spec.gates
    coverage = measure_coverage(store, duck, entry, plan, registry.refused_key(job, version), shard_rows)
    return [
        coverage.check(blocking=gates.coverage == "block"),
        check_table(store, entry, shard_rows, blocking=gates.schema == "block"),
    ]
