"""What the user means: a declared job, a version, the newest one, or the one that `current` reads."""

from __future__ import annotations

import re
from pathlib import Path

from batch_assets.cli.own_input import OwnInput, with_own_input
from batch_assets.domain.errors import UnknownVersion, UserError
from batch_assets.domain.spec import JOB_NAME, JobSpec
from resources.job_file.read import declared_jobs, load_job_spec
from resources.platform import Platform
from resources.releases.log import ReleaseLog

DEFS = Path(__file__).parents[1] / "defs"
VERSION = re.compile(r"v-[0-9a-f]{12}")
CURRENT = "current"


def job_name(job: str | None) -> str:
    """Return the declared job that is meant: the named one, or the only one.

    Raises:
        UserError: it is not declared, or nobody can say which is meant.
    """
    declared = declared_jobs(DEFS)
    if job is None:
        if len(declared) == 1:
            return next(iter(declared))
        raise UserError(f"name a job: {', '.join(declared)}" if declared else f"no job is declared below {DEFS.name}/")
    if job not in declared:
        raise UnknownVersion(f"no job {job!r} is declared; there is {', '.join(declared) or 'none'}")
    return job


def declared_spec(job: str | None, own: OwnInput | None = None) -> tuple[JobSpec, list[str]]:
    """Return the declared job, over the user's own records if options say so, and notes for the user.

    Raises:
        UserError: the declaration or the options cannot work.
    """
    name = job_name(job)
    spec = load_job_spec(declared_jobs(DEFS)[name])
    if own is None or not own.given:
        return spec, []
    from resources.platform import s3_config
    from resources.settings import load_settings
    from resources.snapshots.peek import column_names

    uri = own.uri or spec.input.uri
    return with_own_input(spec, own, column_names(uri, s3_config(load_settings())))


def is_version(text: str | None) -> bool:
    """Say whether `text` has the form of a version's name."""
    return text is not None and VERSION.fullmatch(text) is not None


def find_version(platform: Platform, text: str | None, job: str | None = None) -> tuple[str, str]:
    """Return (job, version) for a version, a job (its newest version), `current`, or None (the newest).

    `job` is the one whose `current` is meant; default: the only one.

    Raises:
        UnknownVersion: there is none, or nothing was published yet.
    """
    if text is not None and is_version(text):
        return platform.registry.find(text), text
    if text == CURRENT:
        return _current(platform, job_name(job))
    if text is not None and text.startswith("v-"):
        raise UnknownVersion(f"{text!r} is not a version's name: those are v- and 12 hex digits")
    known = platform.registry.versions(text) if text is not None and JOB_NAME.fullmatch(text) else []
    if known:  # also a job whose declaration is gone
        return known[-1]
    job = job_name(text)
    registered = platform.registry.versions(job)
    if not registered:
        raise UnknownVersion(f"job {job} has no version yet: `batch-assets register {job}` makes one")
    return registered[-1]


def _current(platform: Platform, job: str) -> tuple[str, str]:
    release = ReleaseLog(platform.store, job).current()
    if release is None:
        raise UnknownVersion(f"nothing of job {job} was published yet")
    return job, release.version
