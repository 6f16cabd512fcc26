"""A DuckDB and stores for tests of retention."""

from tests.results.conftest import duck, memory_store, store

__all__ = ["duck", "memory_store", "store"]
