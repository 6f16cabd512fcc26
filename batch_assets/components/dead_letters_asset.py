"""The dead letters of the candidate: how many of each class, and one of each to look at."""

import dagster as dg

from batch_assets.components.failures import plain_failures
from batch_assets.components.live_versions import LiveVersion
from batch_assets.components.metadata import dead_letter_metadata
from batch_assets.components.names import dead_letters_key, version_key
from batch_assets.domain.spec import JobSpec
from resources.flow import dead_letters as read_dead_letters
from resources.platform import Platform


def dead_letters_asset(spec: JobSpec, candidate: LiveVersion) -> dg.AssetsDefinition:
    """Return the asset beside the candidate that shows which records will get no result, and why."""

    @dg.asset(
        key=dead_letters_key(spec.name),
        group_name=spec.name,
        owners=list(spec.owners),
        kinds={"parquet"},
        deps=[version_key(spec.name, candidate.version)],
        description="Records of the candidate that will get no result in this version, each with its class and reason.",
    )
    def dead_letters(platform: dg.ResourceParam[Platform]) -> dg.MaterializeResult[None]:
        with plain_failures():
            frame = read_dead_letters(platform, candidate.version)
        return dg.MaterializeResult(metadata=dead_letter_metadata(candidate.version, frame))

    return dead_letters
