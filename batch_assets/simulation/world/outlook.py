"""What checkers may look at beside the events: the version, what the world planned, and the raw table and store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batch_assets.domain.lease import ShardRow
from batch_assets.domain.ports import ObjectStore, ShardTable
from batch_assets.simulation.world.template import Template
from batch_assets.simulation.world.weather import Weather
from resources.results.parquet import fetch_parquet


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`store` and `table` are the ones beneath the faults: nothing of what they say is delayed or lost."""

    template: Template
    weather: Weather
    store: ObjectStore
    table: ShardTable
    read: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    def shards(self) -> list[ShardRow]:
        """Return the shard table's rows."""
        return self.table.shards(self.template.version)

    def compact(self, key: str) -> list[Mapping[str, Any]]:
        """Return the rows of a compact object; objects never change, so each is read once."""
        if key not in self.read:
            self.read[key] = fetch_parquet(self.store, key).to_pylist()
        return self.read[key]
