"""What `results` and `dead-letters` read: a version's tables, or what `current` says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

from batch_assets.domain.errors import BatchError, ObjectDamaged
from resources.platform import Platform
from resources.releases.log import ReleaseLog
from resources.releases.reader import scan_release
from resources.results.scan import ObjectScanner
from resources.results.table import scan_dead_letters, scan_version


@contextmanager
def readable() -> Iterator[None]:
    """Turn what Polars says of a lost or damaged object into one message that says what to do.

    Raises:
        ObjectDamaged: an object of the table cannot be read.
    """
    try:
        yield
    except BatchError:
        raise
    except BaseException as error:  # Polars panics with an error of its own that is no Exception
        lost = isinstance(error, FileNotFoundError | pl.exceptions.PolarsError)
        if not lost and type(error).__name__ != "PanicException":
            raise
        said = str(error).replace(" (set POLARS_VERBOSE=1 to see full path)", "").strip().splitlines() or [""]
        raise ObjectDamaged(
            f"an object of this table is gone or damaged: {said[0]}; `batch-assets audit` names it, and "
            "`batch-assets rollback` makes an older release current"
        ) from None


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
