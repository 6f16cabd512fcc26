"""One declared job as Dagster definitions: snapshot → versions → checks and dead letters → current."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from batch_assets.components.checks import gate_checks
from batch_assets.components.current_asset import current_asset
from batch_assets.components.dead_letters_asset import dead_letters_asset
from batch_assets.components.gc_job import gc_schedule
from batch_assets.components.live_versions import LiveVersion
from batch_assets.components.names import publish_job_name, run_job_name, version_key
from batch_assets.components.reload_sensor import reload_sensor
from batch_assets.components.snapshot_asset import snapshot_asset
from batch_assets.components.version_asset import version_asset
from batch_assets.domain.spec import JobSpec
from resources.settings import load_settings


def job_definitions(spec: JobSpec, live: Sequence[LiveVersion]) -> dg.Definitions:
    """Return a job's definitions; `live` is newest first, and its first element is the candidate.

    Before the first snapshot there is no version, and so nothing that could be current: only the snapshot is an asset.
    """
    snapshot = snapshot_asset(spec, [item.version for item in live])
    versions = [version_asset(spec, item) for item in live]
    of_candidate = [dead_letters_asset(spec, live[0]), current_asset(spec, live[0])] if live else []
    return dg.Definitions(
        assets=[snapshot, *versions, *of_candidate],
        asset_checks=[gate_checks(spec, item) for item in live],
        jobs=_jobs(spec, live[0]) if live else [],
        schedules=[gc_schedule(spec, delete=load_settings().gc_delete)],
        sensors=[reload_sensor(spec.name, [item.name for item in live])],
    )


def _jobs(spec: JobSpec, candidate: LiveVersion) -> list[dg.UnresolvedAssetJobDefinition]:
    """Two runs, because blocking holds within one run: the fleet's, then the checks with what they stand before."""
    version = version_key(spec.name, candidate.version)
    run = dg.define_asset_job(
        run_job_name(spec.name),
        selection=dg.AssetSelection.assets(version).without_checks(),
        description=f"Answer the records of {candidate.version}: all shards or a range; finished ones are not redone.",
    )
    downstream = dg.AssetSelection.assets([spec.name, "dead_letters"], [spec.name, "current"])
    publish = dg.define_asset_job(
        publish_job_name(spec.name),
        selection=downstream | dg.AssetSelection.checks_for_assets(version),
        description=f"Check {candidate.version} and, if no blocking check stands against it, make it `current`.",
    )
    return [run, publish]
