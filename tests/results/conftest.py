"""Stores and a DuckDB for tests of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from batch_assets.domain.ports import ObjectStore
from resources.duck import connect
from resources.result_store.store import open_result_store


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """An empty store in a folder."""
    return open_result_store(str(tmp_path / "store"))


@pytest.fixture(scope="session")
def memory_store() -> Callable[[], ObjectStore]:
    """Makes empty stores in memory, for tests that need many."""
    return lambda: open_result_store("memory://")


@pytest.fixture(scope="session")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB for local objects."""
    connection = connect(threads=2)
    yield connection
    connection.close()
