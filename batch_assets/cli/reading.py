"""What `results` and `dead-letters` read: a version's tables, or what `current` says."""

from __future__ import annotations

import polars as pl

from resources.platform import Platform
from resources.releases.log import ReleaseLog
from resources.releases.reader import scan_release
from resources.results.scan import ObjectScanner
from resources.results.table import scan_dead_letters, scan_version


def version_results(platform: Platform, job: str, version: str, *, partial: bool) -> pl.LazyFrame:
    """Return a version's results, one row a record; `partial` adds what is committed in unfinished shards."""
    scanner = ObjectScanner(platform.store, platform.s3)
    spec = platform.registry.read(job, version).spec
    return scan_version(platform.store, scanner, spec, version, platform.table.shards(version), partial=partial)


def current_results(platform: Platform, job: str) -> pl.LazyFrame | None:
    """Return what readers of `current` see, every layer of the newest release; None before the first release."""
    release = ReleaseLog(platform.store, job).current()
    return scan_release(ObjectScanner(platform.store, platform.s3), release) if release else None


def version_dead_letters(platform: Platform, job: str, version: str) -> pl.LazyFrame:
    """Return a version's dead letters so far."""
    return scan_dead_letters(
        platform.store,
        ObjectScanner(platform.store, platform.s3),
        platform.registry.read(job, version).spec,
        version,
        platform.table.shards(version),
        platform.registry.refused_key(job, version),
    )
