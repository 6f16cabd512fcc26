"""`current`: what readers read. Materializing it publishes the candidate, or fails and says which gate refused."""

import dagster as dg
from pydantic import Field

from batch_assets.components.failures import plain_failures
from batch_assets.components.live_versions import LiveVersion
from batch_assets.components.metadata import release_metadata
from batch_assets.components.names import current_key, version_key
from batch_assets.domain.spec import JobSpec
from resources.flow import publish
from resources.platform import Platform
from resources.releases.log import ReleaseLog
from resources.releases.reader import scan_release
from resources.results.scan import ObjectScanner


class PublishConfig(dg.Config):
    """Which version to publish; by default the candidate."""

    version: str = Field("", description="a registered version of this job; empty: the candidate")


def current_asset(spec: JobSpec, candidate: LiveVersion) -> dg.AssetsDefinition:
    """Return the published table's asset.

    It depends on the candidate alone, and `publish` verifies the gates itself: a blocking check holds back only what
    runs in the same run.
    """

    @dg.asset(
        key=current_key(spec.name),
        group_name=spec.name,
        owners=list(spec.owners),
        kinds={"parquet", "duckdb"},
        deps=[version_key(spec.name, candidate.version)],
        description=(
            "What readers read: the newest release. Materializing it verifies the gates of the candidate and appends "
            "a release; if a blocking gate stands against it, nothing changes and the run fails with the reason."
        ),
    )
    def current(
        context: dg.AssetExecutionContext, config: PublishConfig, platform: dg.ResourceParam[Platform]
    ) -> dg.MaterializeResult[None]:
        with plain_failures():
            before = ReleaseLog(platform.store, spec.name).current()
            version = config.version or candidate.version
            published = publish(platform, version, reason=f"materialized in run {context.run.run_id}")
            table = scan_release(ObjectScanner(platform.store, platform.s3), published.release)
            made_by = platform.registry.read(spec.name, version).spec
        return dg.MaterializeResult(
            metadata=release_metadata(made_by, before, published, table),
            data_version=dg.DataVersion(f"{spec.name}/{published.release.sequence}"),
        )

    return current
