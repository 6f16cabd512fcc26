"""What stands in a world, kept from its events alone: an oracle beside the code under test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from batch_assets.domain.lease import Outcome
from batch_assets.simulation.world.events import BaseStands, Claimed, Completed, Event, PartStands


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease as it was given out."""

    worker: str
    at_s: float


@dataclass(slots=True)
class Shelf:
    """One shard's parts, bases and leases. `late` are parts that were put after a newer lease's base."""

    parts: dict[str, PartStands] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    bases: dict[int, tuple[str, ...]] = field(default_factory=dict)
    grants: dict[int, Grant] = field(default_factory=dict)
    outcome: Outcome | None = None

    @property
    def newest_base(self) -> int:
        """The epoch of the newest base; 0 if there is none."""
        return max(self.bases, default=0)

    @property
    def newest_grant(self) -> int:
        """The epoch of the newest lease; 0 if there is none."""
        return max(self.grants, default=0)

    def standing(self) -> list[PartStands]:
        """Return the parts that count now, in the order that decides: the base's, then its own epoch's by name."""
        newest = self.newest_base
        if not newest:
            return []
        own = sorted(key for key, part in self.parts.items() if part.epoch == newest)
        return [self.parts[key] for key in (*self.bases[newest], *own)]

    def rows(self, *, dead: bool) -> dict[int, Mapping[str, Any]]:
        """Return the first standing row of each record: results, or dead letters of records without a result."""
        found: dict[int, Mapping[str, Any]] = {}
        for part in self.standing():
            if part.dead is dead:
                for row in part.rows:
                    found.setdefault(row["row"], row)
        if dead:
            answered = self.rows(dead=False)
            found = {row: letter for row, letter in found.items() if row not in answered}
        return found


class Ledger:
    """Every shard's shelf."""

    def __init__(self) -> None:
        self._shelves: dict[int, Shelf] = {}

    def shelf(self, shard: int) -> Shelf:
        """Return one shard's."""
        return self._shelves.setdefault(shard, Shelf())

    def __iter__(self) -> Iterator[tuple[int, Shelf]]:
        yield from sorted(self._shelves.items())

    def note(self, event: Event) -> None:
        """Keep what an event says stands."""
        match event:
            case PartStands(shard=shard, epoch=epoch, key=key):
                shelf = self.shelf(shard)
                shelf.parts.setdefault(key, event)
                if shelf.newest_base > epoch:
                    shelf.late.add(key)
            case BaseStands(shard=shard, epoch=epoch, accepted=accepted):
                self.shelf(shard).bases.setdefault(epoch, accepted)
            case Claimed(lease=lease):
                self.shelf(lease.shard).grants[lease.epoch] = Grant(lease.worker, event.at_s)
            case Completed(lease=lease, outcome=outcome):
                self.shelf(lease.shard).outcome = outcome
            case _:
                return
