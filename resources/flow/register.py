"""Snapshot and register: a job spec becomes a planned version."""

from __future__ import annotations

from dataclasses import dataclass

from batch_assets.domain.plan import Plan
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import JobSpec, version_name
from resources.models.digest import verify_model
from resources.planning.planner import plan_version
from resources.planning.tokens import TokenCounter
from resources.platform import Platform
from resources.prompting.renderer import open_renderer
from resources.registry import RegisteredVersion
from resources.results.table_schema import result_schema
from resources.snapshots.take import take_snapshot


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
