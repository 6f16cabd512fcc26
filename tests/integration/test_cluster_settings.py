"""The main line on the settings of a cluster: PostgreSQL, S3 for input and results, real worker processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from batch_assets.domain.spec import InputSpec
from batch_assets.reader import current
from resources.flow import drive, publish, run_checks, take_and_register
from resources.platform import Platform
from resources.result_store.store import open_result_store
from resources.settings import Settings
from tests.services.postgres import PostgresServer
from tests.services.seaweedfs import SeaweedServer
from tests.worker.harness import make_spec


def test_a_version_on_postgresql_and_s3_is_finished_checked_published_and_read(
    tmp_path: Path,
    postgres_server: PostgresServer,
    seaweed_server: SeaweedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3 is configured as a boto3 user knows it (environment); two workers share the shards; `current` reads S3."""
    config = seaweed_server.config()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", config.aws_access_key_id or "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", config.aws_secret_access_key or "")
    monkeypatch.setenv("AWS_REGION", config.region_name or "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", config.endpoint_url or "")
    settings = Settings(
        data_dir=tmp_path / "data",
        result_store=seaweed_server.new_uri(),
        shard_table=postgres_server.create_database(),
        workers=2,
        poll_interval_s=0.1,
    )
    spec = make_spec(tmp_path, [f"m {n}" for n in range(200)])
    source = seaweed_server.new_uri()
    open_result_store(source, config).put_if_absent("tickets.parquet", Path(spec.input.uri).read_bytes())
    spec = replace(spec, input=InputSpec(uri=source))
    platform = Platform.open(settings)
    version = take_and_register(platform, spec).version
    drive(platform, version, None, on_done=lambda _: None, on_tick=lambda _: None)
    assert [check.passed for check in run_checks(platform, version)] == [True, True]
    publish(platform, version, reason="test")
    frame = current(spec.name, settings=settings).collect()
    assert frame.height == 200
    assert frame["record_id"].n_unique() == 200
    assert frame.select(pl.col("worker").n_unique()).item() >= 1
