"""The gates of a version as asset checks; which of them block is the job's declaration (`gates`)."""

from collections.abc import Iterator

import dagster as dg

from batch_assets.components.failures import plain_failures
from batch_assets.components.live_versions import LiveVersion
from batch_assets.components.metadata import check_metadata
from batch_assets.components.names import version_key
from batch_assets.domain.spec import JobSpec
from batch_assets.domain.validation import CheckResult
from resources.flow import run_checks
from resources.platform import Platform

CHECKS = {
    "coverage": "Every record of the snapshot has exactly one result or one dead letter (I6).",
    "schema": "The table has the declared columns and every answer satisfies the output schema.",
}


def gate_checks(job: JobSpec, live: LiveVersion) -> dg.AssetChecksDefinition:
    """Return the checks of one version; each can be run alone."""
    key = version_key(job.name, live.version)
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=text, blocking=getattr(live.spec.gates, name) == "block")
        for name, text in CHECKS.items()
    ]

    @dg.multi_asset_check(name=f"{key.to_python_identifier()}__gates", specs=specs, can_subset=True)
    def gates(
        context: dg.AssetCheckExecutionContext, platform: dg.ResourceParam[Platform]
    ) -> Iterator[dg.AssetCheckResult]:
        wanted = {item.name for item in context.selected_asset_check_keys}
        with plain_failures():
            results = run_checks(platform, live.version)
        yield from (as_asset_check(key, result) for result in results if result.name in wanted)

    return gates


def as_asset_check(key: dg.AssetKey, result: CheckResult) -> dg.AssetCheckResult:
    """Return a gate's verdict in Dagster's form: a gate that does not block only warns."""
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=result.name,
        passed=result.passed,
        severity=dg.AssetCheckSeverity.ERROR if result.blocking else dg.AssetCheckSeverity.WARN,
        description=result.summary,
        metadata=check_metadata(result),
    )


def as_evaluation(key: dg.AssetKey, result: CheckResult) -> dg.AssetCheckEvaluation:
    """Return a gate's verdict as an event, for a step that is not the check's own."""
    shown = as_asset_check(key, result)
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=result.name,
        passed=result.passed,
        severity=shown.severity,
        description=shown.description,
        metadata=shown.metadata,
        blocking=result.blocking,
    )
