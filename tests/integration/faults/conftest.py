"""Stacks for the scenes, and what the scenes have cost, told at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.faults.ending import PRICES
from tests.integration.faults.stacks import Stack
from tests.services.postgres import PostgresServer
from tests.services.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer

TOLD = pytest.StashKey[dict[str, list[tuple[int, int]]]]()


@pytest.fixture
def embedded(tmp_path: Path) -> Stack:
    """SQLite and a folder."""
    return Stack(name="embedded", folder=tmp_path)


@pytest.fixture
def cluster(
    tmp_path: Path,
    postgres_server: PostgresServer,
    seaweed_server: SeaweedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Stack:
    """PostgreSQL and S3, on real servers."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    places = {
        "result_store": seaweed_server.new_uri(),
        "shard_table": postgres_server.create_database(),
        "s3_region": "us-east-1",
        "s3_endpoint_url": seaweed_server.endpoint_url,
    }
    return Stack(name="cluster", folder=tmp_path, places=places)


@pytest.fixture(params=("embedded", "cluster"))
def stack(request: pytest.FixtureRequest) -> Stack:
    """Each of the two."""
    found: Stack = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def told(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep what the test's scenes cost."""
    PRICES.clear()
    yield
    if PRICES:
        request.config.stash.setdefault(TOLD, {})[request.node.name] = list(PRICES)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what each scene recomputed, without being asked."""
    found = config.stash.get(TOLD, {})
    if found:
        terminalreporter.section("records computed more than once")
    for name, prices in found.items():
        for recomputed, records in prices:
            terminalreporter.write_line(f"{recomputed:5} of {records:4}  {name}")
