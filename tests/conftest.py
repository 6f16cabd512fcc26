"""Fixtures that several test folders share; each is a module of tests/fixtures."""

from __future__ import annotations

pytest_plugins = [
    "tests.fixtures.models",
    "tests.fixtures.result_stores",
    "tests.fixtures.shard_tables",
    "tests.fixtures.sources",
]
