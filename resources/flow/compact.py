"""Compact: keep the number of layers that a reader joins small."""

from __future__ import annotations

from batch_assets.domain.errors import ReleaseRaced
from resources import duck
from resources.platform import Platform
from resources.releases.compact import compact as compact_release
from resources.releases.log import Published, ReleaseLog


def compact(platform: Platform, job: str) -> Published | None:
    """Fold the layers of a job's current release into one; None if it has one layer, or there is no release.

    Raises:
        ReleaseRaced: somebody published meanwhile; nothing was changed.
        UnknownVersion: the release's version is not registered.
        ObjectMissing, ObjectDamaged, ConservationBroken: the release's objects cannot be folded; nothing was changed.
    """
    release = ReleaseLog(platform.store, job).current()
    if release is None or len(release.layers) <= 1:
        return None
    needs_s3 = platform.settings.result_store_uri.startswith("s3://")
    with duck.connect(platform.s3 if needs_s3 else None, memory_limit=platform.settings.duckdb_memory) as connection:
        return compact_release(
            platform.store,
            connection,
            job,
            rows_per_object=platform.registry.read(job, release.version).spec.shard_size,
            published_at=platform.now_iso(),
        )


def compact_past_limit(platform: Platform, job: str) -> Published | None:
    """Fold the layers if there are more than `layers_max`. A race is left to the next time: the release stands."""
    release = ReleaseLog(platform.store, job).current()
    if release is None or len(release.layers) <= platform.settings.layers_max:
        return None
    try:
        return compact(platform, job)
    except ReleaseRaced:
        return None
