"""Stores that readers can open, and published worlds in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from batch_assets.domain.ports import ObjectStore
from resources.duck import connect
from resources.result_store.config import S3Config
from resources.result_store.store import open_result_store
from resources.results.scan import ObjectScanner
from resources.settings import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """A store, and how a reader that knows its address gets to it."""

    uri: str
    store: ObjectStore
    s3: S3Config | None
    settings: Settings

    @property
    def scanner(self) -> ObjectScanner:
        """Polars over the store."""
        return ObjectScanner(self.store, self.s3)


@pytest.fixture(params=("local", "s3"))
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty store in a folder, and one on S3 that is configured by the AWS environment alone."""
    if request.param == "local":
        uri = str(tmp_path / "store")
        return Place(uri, open_result_store(uri), None, Settings(result_store=uri))
    uri, config = request.getfixturevalue("s3_uri"), request.getfixturevalue("s3_config")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", config.aws_access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", config.aws_secret_access_key)
    settings = Settings(result_store=uri, s3_endpoint_url=config.endpoint_url, s3_region=config.region_name)
    return Place(uri, open_result_store(uri, config), config, settings)


@pytest.fixture
def reader_duck(place: Place) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that reads the store."""
    connection = connect(place.s3, threads=2)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB for local objects."""
    connection = connect(threads=2)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def memory_store() -> Callable[[], ObjectStore]:
    """Makes empty stores in memory."""
    return lambda: open_result_store("memory://")
