"""`publish`, `releases`, `rollback` and `compact`: what `current` reads."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from batch_assets.cli import options
from batch_assets.cli.output import emit, say, table
from batch_assets.cli.targets import find_version, job_name
from batch_assets.domain.errors import UnknownVersion
from batch_assets.domain.release import Release
from resources.platform import Platform
from resources.releases.log import Published, ReleaseLog


def publish(
    version: options.RequiredVersion,
    *,
    reason: options.ReasonOption = "published with batch-assets",
    json: options.JsonOption = False,
) -> None:
    """Check a version from what is stored and make it `current`; exit 3 if a gate refuses."""
    from resources.flow import publish as publish_version

    platform = Platform.open()
    job, name = find_version(platform, version)
    _show(job, publish_version(platform, name, reason=reason), json=json)


def releases(job: options.JobArgument = None, *, json: options.JsonOption = False) -> None:
    """List a job's releases, newest first; the first one is `current`."""
    platform = Platform.open()
    entries = ReleaseLog(platform.store, job_name(job)).entries()
    if json:
        emit([describe(release) for release in entries])
        return
    table(
        ["sequence", "version", "rows", "published_at", "reason"],
        [[entry.sequence, entry.version, entry.rows, entry.published_at, entry.reason] for entry in entries],
        right=["sequence", "rows"],
    )


def rollback(
    job: options.JobArgument = None,
    *,
    reason: Annotated[str, typer.Option("--reason", help="What the release log shows.")],
    to: Annotated[
        int | None, typer.Option("--to", min=1, help="Sequence number; default: the newest release of another version.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Append an older release again, so that `current` reads it; nothing is deleted."""
    from resources.flow import retention_policy

    platform = Platform.open()
    name = job_name(job)
    log, policy = ReleaseLog(platform.store, name), retention_policy(platform)
    _show(name, log.rollback(to, reason=reason, published_at=platform.now_iso(), policy=policy), json=json)


def compact(job: options.JobArgument = None, *, json: options.JsonOption = False) -> None:
    """Fold the layers of what `current` reads into one, with the same rows; nothing is deleted."""
    from resources.flow import compact as compact_release

    platform = Platform.open()
    name = job_name(job)
    published = compact_release(platform, name)
    if published is not None:
        say(published.release.reason)
    else:
        release = ReleaseLog(platform.store, name).current()
        if release is None:
            raise UnknownVersion(f"nothing of job {name} was published yet")
        say(f"release {release.sequence} has one layer: there is nothing to fold")
        published = Published(release=release, appended=False)
    _show(name, published, json=json)


def describe(release: Release) -> dict[str, Any]:
    """Return a release as plain JSON values; its objects are in the release's own file."""
    value = release.to_json()
    layers = [
        {
            "version": layer.version,
            "objects": len(layer.objects),
            "rows": sum(item.rows for item in layer.objects),
            "hidden": layer.hidden.rows if layer.hidden else 0,
        }
        for layer in release.layers
    ]
    return {**value, "layers": layers}


def _show(job: str, published: Published, *, json: bool) -> None:
    release = published.release
    if json:
        emit({**describe(release), "appended": published.appended})
    what = "is now" if published.appended else "was already"
    say(f"current of {job} {what} {release.version} (release {release.sequence}, {release.rows:,} rows)")


COMMANDS = (publish, releases, rollback, compact)
