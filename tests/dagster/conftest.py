"""Dagster in a test's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dagster.world import PLANNED_EVENTS, World


@pytest.fixture(autouse=True)
def planned_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting of .env, without which finished shards turn red when a later run fails."""
    monkeypatch.setenv(PLANNED_EVENTS, "true")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Nine records in three shards, registered, nothing answered yet."""
    return World(tmp_path)
