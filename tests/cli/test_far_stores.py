"""Several machines: one S3 store, one PostgreSQL table, and workers started by hand."""

from __future__ import annotations

import pytest

from tests.cli.scratch import BAD, GOOD, ScratchProject
from tests.services.postgres import PostgresServer
from tests.services.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer


@pytest.mark.slow
def test_workers_share_s3_and_postgresql(
    project: ScratchProject, seaweed_server: SeaweedServer, postgres_server: PostgresServer
) -> None:
    """Two workers that know of each other only through store and table finish a version; somebody else publishes it."""
    far = {
        "BATCH_ASSETS_RESULT_STORE": seaweed_server.new_uri(),
        "BATCH_ASSETS_SHARD_TABLE": postgres_server.create_database(),
        "AWS_ENDPOINT_URL": seaweed_server.endpoint_url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
    }
    registered = project.cli("register", "--json", **far)
    assert registered.code == 0, registered.stderr
    version = registered.json["version"]
    for shards in ("0-1", "2-3"):
        worked = project.cli("worker", version, "--shards", shards, **far)
        assert worked.code == 0, worked.stdout + worked.stderr
    status = project.cli("status", version, "--json", **far).json
    assert (status["results"], status["dead_letters"], status["pending"]) == (GOOD, BAD, 0)
    published = project.cli("publish", version, **far)
    assert published.code == 0, published.stderr
    out = project.root / "far.parquet"
    assert project.cli("results", "current", "--out", str(out), **far).code == 0
    assert out.stat().st_size > 0
