"""A job version: one asset, one partition a shard, filled by a fleet of workers."""

from collections.abc import Iterator, Sequence

import dagster as dg

from batch_assets.components.failures import plain_failures
from batch_assets.components.live_versions import LiveVersion
from batch_assets.components.names import SHARDS_TAG, snapshot_key, version_key
from batch_assets.components.shard_report import ShardReport
from batch_assets.domain.plan import parse_shards
from batch_assets.domain.spec import JobSpec
from resources.flow import drive
from resources.platform import Platform


def version_asset(job: JobSpec, live: LiveVersion) -> dg.AssetsDefinition:
    """Return a version's asset. `job` is the declaration of today, `live.spec` the one the version was made by.

    `output_required=False`: the step logs a materialization for each shard when it is finished, and an output at the
    end would materialize them all once more.
    """

    @dg.asset(
        key=version_key(job.name, live.version),
        group_name=job.name,
        owners=list(job.owners),
        kinds={"vllm" if live.spec.model.engine == "vllm" else "python", "parquet", "duckdb"},
        code_version=live.spec.recipe_digest,
        description=_description(live),
        metadata=_metadata(live),
        deps=[snapshot_key(job.name)],
        partitions_def=dg.StaticPartitionsDefinition(list(live.shard_keys)),
        backfill_policy=dg.BackfillPolicy.single_run(),
        output_required=False,
    )
    def version(context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]) -> Iterator[dg.Output[None]]:
        shards = chosen_shards(context.partition_keys, context.run.tags.get(SHARDS_TAG))
        report = ShardReport(context, platform, shards, job=job.name, version=live.version)
        with plain_failures():
            rows = drive(platform, live.version, shards, on_done=report.shard, on_tick=report.tick)
            report.summary(rows)
        yield from ()  # a generator, because a function that returns would give its None as the output

    return version


def chosen_shards(partition_keys: Sequence[str], tag: str | None) -> list[int]:
    """Return the shards of a run: its partitions, which Dagster gives as one range, thinned out by `SHARDS_TAG`."""
    shards = [int(key) for key in partition_keys]
    wanted = shards if tag is None else parse_shards(tag)
    return [shard for shard in shards if shard in set(wanted)]


def _description(live: LiveVersion) -> str:
    role = " **Published.**" if live.name.published else ""
    role += " **Candidate.**" if live.name.candidate else ""
    return (
        f"Answers of `{live.spec.model.name}` to {live.records:,} records, registered {live.registered_at[:16]} UTC."
        f"{role}\n\nEach partition is a shard. Materialize one, a range or all of them: finished shards are not "
        "redone, and a shard turns green when it is finished, while the run goes on."
    )


def _metadata(live: LiveVersion) -> dict[str, dg.TextMetadataValue | dg.IntMetadataValue]:
    return {
        "recipe": dg.MetadataValue.text(live.spec.recipe_digest),
        "snapshot": dg.MetadataValue.text(live.snapshot),
        "model": dg.MetadataValue.text(f"{live.spec.model.name} ({live.spec.model.digest})"),
        "records": dg.MetadataValue.int(live.records),
        "refused_at_planning": dg.MetadataValue.int(live.refused),
    }
