"""Everything wired together from settings: what the Dagster assets, the command line and the worker start from."""

from __future__ import annotations

from batch_assets.domain.ports import Clock, ObjectStore, ShardTable
from resources.clock import SystemClock, iso_utc
from resources.registry import Registry
from resources.result_store.config import S3Config
from resources.result_store.store import open_result_store
from resources.settings import Settings, load_settings
from resources.shard_table.connect import open_shard_table


class Platform:
    """The adapters of one deployment and the steps of the flow between them."""

    def __init__(self, settings: Settings, store: ObjectStore, table: ShardTable, clock: Clock) -> None:
        self.settings = settings
        self.store = store
        self.table = table
        self.clock = clock
        self.registry = Registry(store)
        self.s3 = s3_config(settings)

    @classmethod
    def open(cls, settings: Settings | None = None) -> Platform:
        """Open the result store and the shard table that the settings (by default the environment) name.

        Raises:
            InvalidSettings: one of them cannot be opened.
        """
        settings = settings or load_settings()
        store = open_result_store(settings.result_store_uri, s3_config(settings))
        return cls(settings, store, open_shard_table(settings.shard_table_url), SystemClock())

    def now_iso(self) -> str:
        """The wall clock as ISO 8601 UTC."""
        return iso_utc(self.clock.wall_s())


def s3_config(settings: Settings) -> S3Config:
    """Return how S3 is reached: what the settings say, and the AWS environment for the rest."""
    return S3Config(
        region_name=settings.s3_region,
        profile_name=settings.s3_profile,
        endpoint_url=settings.s3_endpoint_url,
    )
