"""Reading a job's published results from Python: `current("support_tickets")` is a Polars frame.

Columns, in order:
    record_id                      the source's id; every record once
    the output schema's properties what the model said: text from a model, so untrusted; nested values as JSON text
    carried columns                copied from the source
    access                         the record's access labels, if the job declares them
    job_version, recipe_digest, model_digest   what made the row
    shard, row                     the record's place in the version, 0-based
    epoch, worker, attempts, infrastructure_losses   how it was made
    finish_reason, prompt_tokens, cached_tokens, output_tokens   what the engine said of it
    output_sha256, answered_at     digest of the answer's text; when it was answered, UTC
"""

from __future__ import annotations

import polars as pl

from batch_assets.domain.errors import UnknownVersion
from batch_assets.domain.release import Release
from resources.platform import s3_config
from resources.releases.log import ReleaseLog
from resources.releases.reader import scan_release
from resources.result_store.store import open_result_store
from resources.results.scan import ObjectScanner
from resources.settings import Settings, load_settings


def current(job: str, *, settings: Settings | None = None) -> pl.LazyFrame:
    """Return the newest release of a job, one row a record.

    The frame is pinned to the release that is newest now: it reads the same rows whenever it is collected, until
    retention deletes that version. Call again for a newer one. Nothing but the release's manifest is read here.

    Args:
        job: the job's name.
        settings: where the result store is; by default the environment's `BATCH_ASSETS_*` and `AWS_*`.

    Raises:
        UnknownVersion: nothing was published yet.
        InvalidSettings: the store cannot be opened.
    """
    return _read(job, None, settings)


def release(job: str, sequence: int, *, settings: Settings | None = None) -> pl.LazyFrame:
    """Return release number `sequence` of a job, as `current` does.

    Raises:
        UnknownVersion: there is no such release.
        InvalidSettings: the store cannot be opened.
    """
    return _read(job, sequence, settings)


def releases(job: str, *, settings: Settings | None = None) -> list[Release]:
    """Return the release log of a job, newest first; empty before the first release.

    Raises:
        InvalidSettings: the store cannot be opened.
    """
    settings = settings or load_settings()
    return ReleaseLog(open_result_store(settings.result_store_uri, s3_config(settings)), job).entries()


def _read(job: str, sequence: int | None, settings: Settings | None) -> pl.LazyFrame:
    settings = settings or load_settings()
    s3 = s3_config(settings)
    store = open_result_store(settings.result_store_uri, s3)
    log = ReleaseLog(store, job)
    found = log.current() if sequence is None else log.get(sequence)
    if found is None:
        missing = "no release yet" if sequence is None else f"no release {sequence}"
        raise UnknownVersion(f"job {job} has {missing} in {settings.result_store_uri}")
    return scan_release(ObjectScanner(store, s3), found)
