"""The only reader of the environment: where things lie and how a worker behaves.

Each field is the environment variable `BATCH_ASSETS_<FIELD>`; S3 is configured by the variables that boto3 knows
(`AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL`, ...). Nothing here changes a result, so nothing here is in a version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from batch_assets.domain.errors import InvalidSettings
from batch_assets.domain.spec import ModelSpec


class Settings(BaseSettings):
    """Settings of one process; defaults are the embedded ones: one folder, one SQLite file, local workers."""

    model_config = SettingsConfigDict(env_prefix="BATCH_ASSETS_", extra="ignore", frozen=True)

    data_dir: Path = Field(Path("data"), description="folder of everything embedded: store, shard table, logs")
    result_store: str = Field("", description="folder or s3://bucket/prefix; default <data_dir>/store")
    shard_table: str = Field("", description="SQLAlchemy URL; default sqlite:///<data_dir>/shards.db")

    workers: int = Field(1, ge=1, description="local worker processes a run starts")
    lease_ttl_s: float = Field(600, gt=0, description="a worker that is silent for this long loses its shards")
    heartbeat_interval_s: float = Field(30, gt=0, description="renewal interval; at most a third of lease_ttl_s")
    poll_interval_s: float = Field(1, gt=0, description="how often the asset's step looks at the shard table")
    part_records_max: int = Field(400, ge=1, description="a part is committed at this many records ...")
    part_interval_s: float = Field(5, gt=0, description="... or when its oldest record has waited this long")
    drain_s: float = Field(10, gt=0, description="budget from a notice to exit, finished in-flight records included")
    notice: Literal["", "aws", "gce"] = Field("", description="whose spot notice to watch, beside SIGTERM")
    notice_url: str = Field("", description="metadata server, default: the cloud's own address")
    notice_interval_s: float = Field(5, gt=0, description="how often the metadata server is asked")
    engine_restarts_max: int = Field(
        16, ge=0, description="deaths in a row, of an engine or a worker, without an answer in between"
    )
    engine_stall_s: float = Field(
        300, ge=0, description="an engine that gives no token for this long is killed; 0 = never"
    )
    worker_memory_mb_max: int = Field(0, ge=0, description="recycle a worker at a shard edge past this RSS; 0 = never")
    model_dir: Path | None = Field(None, description="where model folders lie by name; default: the spec's path")
    fake_faults: str = Field("", description="JSON of the fake engine's faults (worker/engine/fake.py), for tests")
    duckdb_memory: str = Field("2GB", description="DuckDB's memory limit; it spills to disk beyond it")

    layers_max: int = Field(8, ge=1, description="a release of more layers is folded into one when it is published")
    keep_releases: int = Field(10, ge=1, description="`gc` keeps this many releases of a job ...")
    keep_days: float = Field(30, ge=0, description="... and those that are younger than this many days")
    partial_days: float = Field(
        7, ge=0, description="`gc` keeps a version that no kept release reads for this long after the last work on it"
    )
    gc_delete: bool = Field(default=False, description="the scheduled `gc` deletes; else it only says what it would")

    webserver_url: str = Field("http://localhost:3000", description="Dagster's webserver, asked to reload new versions")

    pinned_versions: str = Field("", description="registered versions to show as assets too, separated by commas")

    s3_region: str | None = Field(None, description="S3 region; default: as boto3 finds it (`AWS_REGION`, profile)")
    s3_profile: str | None = Field(None, description="AWS profile; default: as boto3 finds it (`AWS_PROFILE`)")
    s3_endpoint_url: str | None = Field(None, description="S3 endpoint; default: `AWS_ENDPOINT_URL`, else AWS itself")

    @model_validator(mode="after")
    def _heartbeat_fits(self) -> Self:
        if self.heartbeat_interval_s * 3 > self.lease_ttl_s:
            raise ValueError("heartbeat_interval_s must be at most a third of lease_ttl_s")
        return self

    @property
    def result_store_uri(self) -> str:
        """Where objects lie."""
        return self.result_store or str((self.data_dir / "store").absolute())

    @property
    def shard_table_url(self) -> str:
        """Where the shard table lies."""
        return self.shard_table or f"sqlite:///{(self.data_dir / 'shards.db').absolute()}"

    def environment(self) -> dict[str, str]:
        """Return the variables that give another process the same settings."""
        return {
            f"BATCH_ASSETS_{name.upper()}": str(value)
            for name, value in self.model_dump().items()
            if value is not None and value != ""
        } | {"BATCH_ASSETS_DATA_DIR": str(self.data_dir.absolute())}

    def model_folder(self, model: ModelSpec) -> Path:
        """Where this machine keeps a model's files."""
        return self.model_dir / model.name if self.model_dir else Path(model.path)

    @property
    def log_dir(self) -> Path:
        """Where local workers write their logs."""
        return (self.data_dir / "logs").absolute()


def load_settings() -> Settings:
    """Read the environment.

    Raises:
        InvalidSettings: a value cannot work; the message names each variable.
    """
    try:
        return Settings()
    except ValidationError as error:
        problems = "; ".join(
            f"BATCH_ASSETS_{'_'.join(str(part) for part in item['loc']).upper() or 'SETTINGS'}: {item['msg']}"
            for item in error.errors()
        )
        raise InvalidSettings(problems) from None
