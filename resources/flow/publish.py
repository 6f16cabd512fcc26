"""Check, publish and read a version."""

from __future__ import annotations

import duckdb
import polars as pl

from batch_assets.domain.validation import CheckResult
from resources import duck
from resources.flow.compact import compact_past_limit
from resources.platform import Platform
from resources.registry import RegisteredVersion
from resources.releases.log import Published
from resources.releases.publish import publish_version
from resources.results import table
from resources.results.checks import run_checks as run_checks_on
from resources.results.scan import ObjectScanner


def open_duck(platform: Platform, entry: RegisteredVersion) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection that reads a version's objects and its snapshot's, within the configured memory.

    S3 is set up only if one of them is there: looking for AWS credentials costs seconds where there are none.
    """
    places = [platform.settings.result_store_uri, *(item.data_uri for item in entry.snapshot.objects)]
    needs_s3 = any(place.startswith("s3://") for place in places)
    return duck.connect(platform.s3 if needs_s3 else None, memory_limit=platform.settings.duckdb_memory)


def run_checks(platform: Platform, version: str) -> list[CheckResult]:
    """Check a version from what is stored: coverage, then schema.

    Raises:
        UnknownVersion: it is not registered.
    """
    job = platform.registry.find(version)
    with open_duck(platform, platform.registry.read(job, version)) as connection:
        return run_checks_on(
            store=platform.store,
            registry=platform.registry,
            duck=connection,
            job=job,
            version=version,
            shard_rows=platform.table.shards(version),
        )


def publish(
    platform: Platform, version: str, *, reason: str, base: int | None = None, tombstones_key: str | None = None
) -> Published:
    """Verify the gates from storage and append a release; a version that is current already is left so.

    `base` and `tombstones_key` are a delta's; see `publish_version`. Past `layers_max` layers another release with the
    same rows follows, in which they are one.

    Raises:
        UnknownVersion: it is not registered. GateRefused: a blocking check stands against it.
        BaseMoved: something was published since release `base`.
        ReleaseRaced: somebody else published first.
    """
    job = platform.registry.find(version)
    with open_duck(platform, platform.registry.read(job, version)) as connection:
        published = publish_version(
            store=platform.store,
            registry=platform.registry,
            table=platform.table,
            duck=connection,
            job=job,
            version=version,
            reason=reason,
            published_at=platform.now_iso(),
            base=base,
            tombstones_key=tombstones_key,
        )
    compact_past_limit(platform, job)
    return published


def scan_version(platform: Platform, version: str, *, partial: bool = False) -> pl.LazyFrame:
    """Return a version's results, one row a record; `partial` adds what is committed in unfinished shards."""
    entry = platform.registry.read(platform.registry.find(version), version)
    rows = platform.table.shards(version)
    scanner = ObjectScanner(platform.store, platform.s3)
    return table.scan_version(platform.store, scanner, entry.spec, version, rows, partial=partial)


def dead_letters(platform: Platform, version: str) -> pl.DataFrame:
    """Return a version's dead letters so far, those refused at planning included."""
    job = platform.registry.find(version)
    return table.scan_dead_letters(
        platform.store,
        ObjectScanner(platform.store, platform.s3),
        platform.registry.read(job, version).spec,
        version,
        platform.table.shards(version),
        platform.registry.refused_key(job, version),
    ).collect()
