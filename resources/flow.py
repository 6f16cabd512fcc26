"""The steps of the flow over a platform: snapshot and register, drive the shards, check, publish, read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb
import polars as pl

from batch_assets.domain.errors import ShardCancelled
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.plan import Plan
from batch_assets.domain.progress import Progress, ProgressMeter
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import JobSpec, version_name
from batch_assets.domain.validation import CheckResult
from resources import duck
from resources.fleet.local import LocalFleet
from resources.models.digest import verify_model
from resources.planning.planner import plan_version
from resources.planning.tokens import TokenCounter
from resources.platform import Platform
from resources.prompting.renderer import open_renderer
from resources.registry import RegisteredVersion
from resources.releases.log import Published
from resources.releases.publish import publish_version
from resources.results import table
from resources.results.checks import run_checks as run_checks_on
from resources.results.scan import ObjectScanner
from resources.results.table_schema import result_schema
from resources.snapshots.take import take_snapshot

WAKE_PAUSE_S = 5.0
STOP_RESERVE_S = 5.0  # beyond the drain budget, before a worker is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What registering did. `new` is False if the version stood already; then nothing was planned again.

    `notes` are what the snapshot has to say of the source (casts, blank lines), a sentence each.
    """

    version: str
    new: bool
    snapshot: Snapshot
    plan: Plan
    notes: tuple[str, ...] = ()


def take_and_register(platform: Platform, spec: JobSpec) -> Registration:
    """Take a snapshot of the job's input and register the version that it makes with the recipe.

    Raises:
        UserError: the input or the spec cannot work; the message names the file, column or field.
        ModelDigestMismatch: the local model folder is not the pinned one.
    """
    taken = take_snapshot(spec.input, platform.store, s3=platform.s3)
    return register(platform, spec, taken.snapshot, notes=taken.notes)


def register(platform: Platform, spec: JobSpec, snapshot: Snapshot, notes: tuple[str, ...] = ()) -> Registration:
    """Plan a version and put it into the registry and the shard table; a second time changes nothing.

    The table is filled from the registry, so a crash between the two is mended by the next call.
    """
    result_schema(spec)
    version = version_name(spec, snapshot.digest)
    new = not platform.registry.has(spec.name, version)
    if new:
        folder = platform.settings.model_folder(spec.model)
        if spec.model.engine != "fake":
            verify_model(folder, spec.model.digest)
        open_renderer(spec, folder)
        planned = plan_version(
            spec,
            snapshot,
            tokens=TokenCounter.for_folder(folder),
            s3=platform.s3,
            memory_limit=platform.settings.duckdb_memory,
        )
        entry = RegisteredVersion(version=version, spec=spec, snapshot=snapshot, registered_at=platform.now_iso())
        new = platform.registry.add(entry, planned.plan, planned.refused)
    plan = platform.registry.plan(spec.name, version)
    platform.table.register(spec.name, version, plan.shards)
    return Registration(version=version, new=new, snapshot=snapshot, plan=plan, notes=notes)


def drive(
    platform: Platform,
    version: str,
    shards: Sequence[int] | None,
    *,
    on_done: Callable[[ShardRow], None],
    on_tick: Callable[[Progress], None],
) -> list[ShardRow]:
    """Run local workers until the given shards (None: all) are done, and return their rows.

    `on_done` is called once for each finished shard, at once for those that were finished before: a second run
    recomputes nothing, and a run whose predecessor died before it could report gets the reports. Whatever ends this
    call (a cancelled run raises a BaseException) stops the workers, which release their leases.

    Raises:
        Permanent: the workers cannot go on; the message has the end of a worker's log.
        ShardCancelled: the version was cancelled meanwhile.
    """
    settings, clock = platform.settings, platform.clock
    chosen = None if shards is None else frozenset(shards)
    rows = _rows(platform, version, chosen)
    meter = ProgressMeter(total=sum(row.records for row in rows), shards_total=len(rows), started_s=clock.monotonic_s())
    fleet = LocalFleet(
        version=version,
        shards=shards,
        workers=min(settings.workers, max(1, len(rows))),
        log_dir=settings.log_dir,
        clock=clock,
        environment=settings.environment(),
    )
    reported: set[int] = set()
    woken_s = clock.monotonic_s()
    try:
        while True:
            done = [row for row in rows if row.state is ShardState.DONE]
            for row in done:
                if row.shard not in reported:
                    reported.add(row.shard)
                    on_done(row)
            settled = sum(row.records - row.pending_records for row in rows)
            on_tick(meter.look(done=settled, shards_done=len(done), now_s=clock.monotonic_s()))
            if len(done) == len(rows):
                return rows
            if any(row.state is ShardState.CANCELLED for row in rows):
                raise ShardCancelled(f"version {version} was cancelled; `batch-assets run` with --resume takes it up")
            fleet.tend(settled)
            if clock.monotonic_s() - woken_s > WAKE_PAUSE_S and _claimable(rows, clock.wall_s()):
                fleet.wake()
                woken_s = clock.monotonic_s()
            clock.sleep(settings.poll_interval_s)
            rows = _rows(platform, version, chosen)
    finally:
        fleet.stop(settings.drain_s + STOP_RESERVE_S)


def _rows(platform: Platform, version: str, chosen: frozenset[int] | None) -> list[ShardRow]:
    rows = platform.table.shards(version)
    return rows if chosen is None else [row for row in rows if row.shard in chosen]


def _claimable(rows: Sequence[ShardRow], wall_s: float) -> bool:
    """Say whether an idle worker would find something; only a hint, so this machine's clock is good enough."""
    return any(
        row.state is ShardState.PENDING
        or (row.state is ShardState.LEASED and row.expires_at_s is not None and row.expires_at_s <= wall_s)
        for row in rows
    )


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


def publish(platform: Platform, version: str, *, reason: str) -> Published:
    """Verify the gates from storage and append a release; a version that is current already is left so.

    Raises:
        UnknownVersion: it is not registered. GateRefused: a blocking check stands against it.
        ReleaseRaced: somebody else published first.
    """
    job = platform.registry.find(version)
    with open_duck(platform, platform.registry.read(job, version)) as connection:
        return publish_version(
            store=platform.store,
            registry=platform.registry,
            table=platform.table,
            duck=connection,
            job=job,
            version=version,
            reason=reason,
            published_at=platform.now_iso(),
        )


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
