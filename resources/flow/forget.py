"""A deletion request over a platform."""

from __future__ import annotations

from resources import duck
from resources.platform import Platform
from resources.retention.forget import Forgotten
from resources.retention.forget import forget as forget_record


def forget(platform: Platform, job: str, record_id: str) -> Forgotten:
    """Remove a record from everything that is kept of a job; see `resources.retention.forget`.

    Raises:
        RecordInWork: an unfinished version holds it. ReleaseRaced: somebody published meanwhile; run it again.
    """
    entries = [platform.registry.read(job, version) for _, version in platform.registry.versions(job)]
    places = [
        platform.settings.result_store_uri,
        *(item.data_uri for entry in entries for item in entry.snapshot.objects),
    ]
    needs_s3 = any(place.startswith("s3://") for place in places)
    with duck.connect(platform.s3 if needs_s3 else None, memory_limit=platform.settings.duckdb_memory) as connection:
        return forget_record(
            platform.store,
            platform.registry,
            platform.table,
            connection,
            job,
            record_id,
            now_iso=platform.now_iso(),
        )
