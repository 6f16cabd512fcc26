"""A job over a handful of records on the fake engine, its platform in a folder, and runs of its assets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from batch_assets.components.job_definitions import job_definitions
from batch_assets.components.live_versions import live_versions
from batch_assets.components.names import version_key
from batch_assets.domain.plan import shard_key
from batch_assets.domain.spec import DecodingSpec, InputColumns, InputSpec, JobSpec, ModelSpec, PromptSpec
from resources.flow import take_and_register
from resources.platform import Platform
from resources.settings import Settings

JOB = "tickets"
PLANNED_EVENTS = "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS"
SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"type": "string", "enum": ["card", "fraud", "other"]},
        "summary": {"type": "string", "minLength": 1, "maxLength": 80},
    },
    "required": ["category", "summary"],
    "additionalProperties": False,
}


def make_spec(folder: Path, *, records: int, shard_size: int, digest: str = "0" * 64) -> JobSpec:
    """Write `records` records (the last one without text) and return a job over them."""
    lines = [{"record_id": f"r-{number:03}", "text": f"message {number}"} for number in range(records - 1)]
    lines.append({"record_id": "r-empty", "text": ""})
    source = folder / "records.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return JobSpec(
        name=JOB,
        input=InputSpec(uri=str(source), columns=InputColumns()),
        model=ModelSpec(
            name="fake", path=str(folder / "none"), digest=f"sha256:{digest}", engine="fake", max_num_seqs=1
        ),
        prompt=PromptSpec(system="Sort the message."),
        decoding=DecodingSpec(max_tokens=100),
        output_schema=json.dumps(SCHEMA, sort_keys=True),
        shard_size=shard_size,
        owners=("team:support",),
        description="A job for tests.",
    )


class World:
    """One registered version as Dagster sees it; every run is in this process, its workers are real ones."""

    def __init__(self, folder: Path, *, records: int = 9, shard_size: int = 3, **settings: Any) -> None:
        self.settings = Settings(data_dir=folder / "data", poll_interval_s=0.05, part_interval_s=0.2, **settings)
        self.platform = Platform.open(self.settings)
        self.spec = make_spec(folder, records=records, shard_size=shard_size)
        self.registration = take_and_register(self.platform, self.spec)
        self.version = self.registration.version
        self.key = version_key(JOB, self.version)
        (folder / "dagster").mkdir()
        (folder / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        self.instance = dg.DagsterInstance.local_temp(str(folder / "dagster"))

    @property
    def definitions(self) -> dg.Definitions:
        """The job's definitions over this platform, as they are after a reload."""
        made = job_definitions(self.spec, live_versions(JOB, self.settings))
        resources = {"platform": dg.ResourceDefinition.hardcoded_resource(self.platform)}
        return dg.Definitions.merge(made, dg.Definitions(resources=resources, executor=dg.in_process_executor))

    def run(
        self,
        *assets: dg.AssetKey,
        first: int | None = None,
        last: int | None = None,
        tags: dict[str, str] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Materialize assets in one run; `first` and `last` are shards, for the version's asset."""
        span = {}
        if first is not None and last is not None:
            span = {
                "dagster/asset_partition_range_start": shard_key(first),
                "dagster/asset_partition_range_end": shard_key(last),
            }
        job = self.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=self.instance, asset_selection=list(assets), tags={**span, **(tags or {})}, raise_on_error=False
        )

    @property
    def green(self) -> set[str]:
        """Shards that Dagster shows as materialized."""
        return self.instance.get_materialized_partitions(self.key)

    def epochs(self) -> list[int]:
        """The epoch of each shard: how often it was claimed."""
        return [row.epoch for row in self.platform.table.shards(self.version)]


def materializations(result: dg.ExecuteInProcessResult) -> list[str | None]:
    """Return the partitions that a run reported, in order."""
    events: Sequence[dg.DagsterEvent] = result.all_events
    return [event.partition for event in events if event.is_step_materialization]


def failure_text(result: dg.ExecuteInProcessResult) -> str:
    """Return what the run's first failed step says."""
    for event in result.all_events:
        if event.is_step_failure and event.step_failure_data.user_failure_data:
            return event.step_failure_data.user_failure_data.description or ""
    return ""
