"""The snapshot: fixes the input, registers and plans the version that it and the recipe name."""

from collections.abc import Sequence

import dagster as dg

from batch_assets.components.failures import plain_failures
from batch_assets.components.metadata import registration_metadata
from batch_assets.components.names import snapshot_key
from batch_assets.domain.spec import JobSpec
from resources.flow import take_and_register
from resources.platform import Platform


def snapshot_asset(spec: JobSpec, loaded: Sequence[str]) -> dg.AssetsDefinition:
    """Return the snapshot asset of a job; `loaded` are the versions that already are assets."""

    @dg.asset(
        key=snapshot_key(spec.name),
        group_name=spec.name,
        owners=list(spec.owners),
        kinds={"parquet"},
        code_version=spec.recipe_digest,
        description=(
            f"The input `{spec.input.uri}`, fixed by size, checksum and rows of each object. Materializing it also "
            "registers and plans the job version that this input and the recipe of the job's declaration name."
        ),
    )
    def snapshot(context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]) -> dg.MaterializeResult[None]:
        with plain_failures():
            registration = take_and_register(platform, spec)
        if registration.version not in loaded:
            context.log.warning("%s is an asset after the definitions are reloaded", registration.version)
        return dg.MaterializeResult(
            metadata=registration_metadata(registration, loaded=registration.version in loaded),
            data_version=dg.DataVersion(registration.snapshot.digest),
        )

    return snapshot
