"""`gc` and `forget`: what the result store gives up."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from batch_assets.cli import options
from batch_assets.cli.output import emit, say, table
from batch_assets.cli.targets import job_name
from batch_assets.domain.retention import Verdict
from resources.platform import Platform


def gc(
    job: options.JobArgument = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it; without this, nothing is changed.")] = False,
    json: options.JsonOption = False,
) -> None:
    """Say what of a job's storage retention gives up, by reason and size; `--delete` deletes it."""
    from resources.flow import gc as collect

    platform = Platform.open()
    name = job_name(job)
    verdict = collect(platform, name, delete=delete)
    if json:
        emit(describe(name, verdict, deleted=delete))
    by_reason = sums(verdict)
    if by_reason:
        table(
            ["reason", "objects", "bytes"],
            [[reason, item["objects"], item["bytes"]] for reason, item in by_reason.items()],
            right=["objects", "bytes"],
        )
    total = sum(item.size_bytes for item in verdict.doomed)
    did = "deleted" if delete else "may be deleted"
    say(f"{name}: {len(verdict.doomed):,} objects, {total:,} bytes {did}; {len(verdict.releases):,} releases are kept")
    if verdict.doomed and not delete:
        say("nothing was changed; --delete deletes them")


def describe(job: str, verdict: Verdict, *, deleted: bool) -> dict[str, Any]:
    """Return a verdict as plain JSON values, every key included."""
    return {
        "job": job,
        "deleted": deleted,
        "objects": len(verdict.doomed),
        "bytes": sum(item.size_bytes for item in verdict.doomed),
        "by_reason": sums(verdict),
        "keys": [{"key": item.key, "bytes": item.size_bytes, "reason": item.reason} for item in verdict.doomed],
        "kept_releases": list(verdict.releases),
        "kept_versions": dict(verdict.versions),
    }


def sums(verdict: Verdict) -> dict[str, dict[str, int]]:
    """Return how many objects and bytes go for each reason."""
    found: dict[str, dict[str, int]] = {}
    for item in verdict.doomed:
        entry = found.setdefault(item.reason, {"objects": 0, "bytes": 0})
        entry["objects"] += 1
        entry["bytes"] += item.size_bytes
    return dict(sorted(found.items()))


def forget(
    record_id: Annotated[str, typer.Argument(metavar="RECORD_ID", help="The record's id, as it is in the results.")],
    *,
    job: Annotated[str | None, typer.Option("--job", help="Declared job; default: the only one.")] = None,
    json: options.JsonOption = False,
) -> None:
    """Remove one record from everything that is kept, by rewriting what holds it; older releases become unreadable."""
    from resources.flow import forget as forget_record

    platform = Platform.open()
    name = job_name(job)
    done = forget_record(platform, name, record_id)
    if json:
        emit({"job": name, **asdict(done)})
    if not done.rewritten:
        say(f"{name}: no stored object holds the record")
    else:
        say(f"{name}: {len(done.rewritten)} objects held the record and are deleted; others are in their place")
    if done.release is not None:
        say(f"release {done.release} is current and does not show it; older releases that did are unreadable")
    for source in done.sources:
        say(f"your own input still holds it: {source}")


COMMANDS = (gc, forget)
