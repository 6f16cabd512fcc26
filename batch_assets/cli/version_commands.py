"""`status`, `versions` and `cancel`: what is registered, how far it is, and stopping it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from batch_assets.cli import options
from batch_assets.cli.output import emit, say, table
from batch_assets.cli.targets import find_version, job_name
from batch_assets.domain.errors import UnknownVersion
from batch_assets.domain.ports import VersionCounts
from batch_assets.domain.spec import JOB_NAME
from resources.platform import Platform


def status(version: options.VersionArgument = None, *, json: options.JsonOption = False) -> None:
    """Show a version's counts: records = results + dead letters + pending, and its shards and workers."""
    platform = Platform.open()
    job, name = find_version(platform, version)
    counts = counts_of(platform, name)
    workers = [{**asdict(row.beat), "beat_at_s": row.beat_at_s} for row in platform.table.workers(name)]
    if json:
        emit({**describe(job, counts), "workers": workers})
        return
    say(f"{job} {name}: {state_of(counts)}")
    say(
        f"{counts.records:,} records = {counts.results:,} results + {counts.dead_letters:,} dead letters "
        f"+ {counts.pending:,} pending"
    )
    say(f"{counts.shards_done}/{counts.shards_total} shards done, {counts.shards_leased} in work")
    if workers and not counts.done:
        table(
            ["worker", "state", "records", "records/s", "tokens/s"],
            [_worker_cells(worker) for worker in workers],
            right=["records", "records/s", "tokens/s"],
        )


def versions(job: options.JobArgument = None, *, json: options.JsonOption = False) -> None:
    """List the registered versions, newest first; without JOB those of every job."""
    platform = Platform.open()
    known = platform.registry.versions(job) if job is None or JOB_NAME.fullmatch(job) else []
    if job is not None and not known:
        job_name(job)  # a job that nobody declared is a mistake, one without versions is not
    found = []
    for name, version in reversed(known):
        counts = platform.table.counts(version)
        entry = platform.registry.read(name, version)
        head = {"job": name, "version": version, "registered_at": entry.registered_at, "snapshot": entry.snapshot.name}
        found.append(
            {**head, "input": entry.snapshot.uri, **(describe(name, counts) if counts else {"state": "unplanned"})}
        )
    if json:
        emit(found)
        return
    columns = ["job", "version", "state", "records", "results", "dead_letters", "pending", "registered_at", "input"]
    table(columns, [[row.get(name, "") for name in columns] for row in found], right=columns[3:7])


def cancel(version: options.RequiredVersion, *, json: options.JsonOption = False) -> None:
    """Stop a version: no shard is claimed any more, and workers commit what is finished and leave."""
    platform = Platform.open()
    job, name = find_version(platform, version)
    platform.table.cancel(name)
    counts = counts_of(platform, name)
    if json:
        emit(describe(job, counts))
    if counts.done:
        say(f"{job} {name} is done already: there is nothing to cancel")
        return
    say(f"{job} {name} is cancelled; {counts.pending:,} records stay pending")
    say(f"`batch-assets run {name} --resume` goes on with it")


def counts_of(platform: Platform, version: str) -> VersionCounts:
    """Return a version's counts.

    Raises:
        UnknownVersion: it is registered, but this shard table does not know it.
    """
    counts = platform.table.counts(version)
    if counts is None:
        raise UnknownVersion(
            f"{version} is registered but not in this shard table: BATCH_ASSETS_SHARD_TABLE may name another one; "
            "`batch-assets register` adds it"
        )
    return counts


def state_of(counts: VersionCounts) -> str:
    """Return one word for how far a version is."""
    if counts.done:
        return "done"
    if counts.cancelled:
        return "cancelled"
    return "running" if counts.shards_leased else "pending"


def describe(job: str, counts: VersionCounts) -> dict[str, Any]:
    """Return a version's counts as plain JSON values."""
    return {"job": job, "state": state_of(counts), **asdict(counts), "pending": counts.pending}


def _worker_cells(worker: dict[str, Any]) -> list[object]:
    rates = [f"{worker['records_per_s']:.1f}", f"{worker['tokens_per_s']:.0f}"]
    return [worker["worker"], worker["state"], worker["records"], *rates]


COMMANDS = (status, versions, cancel)
