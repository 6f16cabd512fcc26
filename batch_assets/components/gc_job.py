"""Retention as a Dagster job: says what may be deleted, or deletes it, by hand or on a schedule."""

import dagster as dg
from pydantic import Field

from batch_assets.components.failures import plain_failures
from batch_assets.components.names import gc_job_name
from batch_assets.domain.spec import JobSpec
from resources.flow import gc
from resources.platform import Platform

NIGHTLY = "30 4 * * *"


class GcConfig(dg.Config):
    """Whether to delete."""

    delete: bool = Field(False, description="delete what retention gives up; else only say what it is")


def gc_schedule(spec: JobSpec, *, delete: bool) -> dg.ScheduleDefinition:
    """Return the job and its schedule, which is stopped until somebody starts it; `delete` is its run's config."""

    @dg.op(name=f"{spec.name}_collect", description="What the result store gives up, by reason and size.")
    def collect(context: dg.OpExecutionContext, config: GcConfig, platform: dg.ResourceParam[Platform]) -> None:
        with plain_failures():
            verdict = gc(platform, spec.name, delete=config.delete)
        sums: dict[str, int] = {}
        for item in verdict.doomed:
            sums[item.reason] = sums.get(item.reason, 0) + item.size_bytes
        for reason, size in sorted(sums.items()):
            context.log.info("%s: %s bytes", reason, f"{size:,}")
        context.add_output_metadata(
            {
                "deleted": config.delete,
                "objects": len(verdict.doomed),
                "bytes": sum(sums.values()),
                "bytes_by_reason": dg.MetadataValue.json(sums),
                "kept_releases": len(verdict.releases),
            }
        )

    @dg.job(name=gc_job_name(spec.name), description="Say what retention gives up; with `delete`, delete it.")
    def collect_job() -> None:
        collect()

    return dg.ScheduleDefinition(
        job=collect_job,
        cron_schedule=NIGHTLY,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        run_config={"ops": {collect.name: {"config": {"delete": delete}}}},
        description="Every night: " + ("deletes what retention gives up." if delete else "says what could be deleted."),
    )
