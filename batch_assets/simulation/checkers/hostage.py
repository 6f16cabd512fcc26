"""I4: exactly the records that deserve it are dead letters, for the right reason; every other one has its result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from batch_assets.domain.attempt import EngineCrash
from batch_assets.simulation.checkers.base import Broken, Silent
from batch_assets.simulation.world.events import Charged, EngineDied, Event, ProcessEnded, Released
from batch_assets.simulation.world.events import Refused as LeaseRefused
from batch_assets.simulation.world.ledger import Ledger
from batch_assets.simulation.world.outlook import Outlook
from batch_assets.simulation.world.weather import Poison

FATE = {  # failure, own tries
    Poison.CRASH: ("engine_crash", 3),
    Poison.HANG: ("engine_crash", 3),
    Poison.KILL_WORKER: ("engine_crash", 3),
    Poison.INVALID: ("invalid_output", 3),
    Poison.REFUSE: ("refused", 1),
    Poison.TRUNCATE: ("truncated", 1),
    Poison.ABORT: ("transient", 3),
}
DESERVED: Mapping[Poison | None, int] = {Poison.INVALID: 2, Poison.ABORT: 2, Poison.FLAKY: 1}


class NoHostage(Silent):
    """Looks at the end, and counts engine deaths on the way."""

    invariant: ClassVar[str] = "I4"

    def __init__(self) -> None:
        self._marked_deaths: Counter[str] = Counter()
        self._ahead: dict[str, set[tuple[int, int]]] = {}
        self._unlucky: dict[tuple[int, int], Counter[str]] = {}

    def after(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:  # noqa: ARG002
        """Bound the engines that one process spends on poison: halving to the killer, then three deaths alone.

        A process that gave a shard back or lost it forgets whom it suspected, and may begin again.
        """
        self._charges(event)
        if isinstance(event, Released | LeaseRefused):
            self._marked_deaths.pop(event.process, None)
        if isinstance(event, EngineDied) and event.marked:
            self._marked_deaths[event.process] += 1
            killers = sum(kind in {Poison.CRASH, Poison.HANG} for _, kind in outlook.weather.poison)
            most = killers * (math.ceil(math.log2(outlook.template.window)) + 1 + 3)
            if self._marked_deaths[event.process] > most:
                raise Broken(self.invariant, f"{event.process} spent over {most} engines on {killers} poison records")

    def _charges(self, event: Event) -> None:
        """Note whose process ended, or lost its lease, while the record was asked alone and charged ahead.

        Nobody can tell that from a record that killed it; three times, and a healthy one is buried.
        """
        ahead = self._ahead.setdefault(event.process, set())
        match event:
            case Charged(lease=lease, row=row, tries=tries):
                if tries.failure == EngineCrash.name and tries.own:
                    ahead.add((lease.shard, row))
                else:
                    ahead.discard((lease.shard, row))
            case LeaseRefused(lease=lease):
                self._blamed(event.process, {place for place in ahead if place[0] == lease.shard})
            case ProcessEnded():
                self._blamed(event.process, set(ahead))
            case _:
                return

    def _blamed(self, process: str, places: set[tuple[int, int]]) -> None:
        self._ahead[process] -= places
        for place in places:
            self._unlucky.setdefault(place, Counter())[process] += 1

    def _bad_luck(self, row: Mapping[str, Any], *, but: str = "") -> int:
        """Return how often a record was blamed so, by other workers than the one that got it done."""
        blamed = self._unlucky.get((row["shard"], row["row"]), Counter())
        return blamed.total() - blamed[but]

    def end(self, ledger: Ledger, outlook: Outlook) -> None:
        """Compare every record's fate with what the world planned for it."""
        poison = dict(outlook.weather.poison)
        for shard, shelf in ledger:
            for row, letter in shelf.rows(dead=True).items():
                self._buried(poison.get(outlook.template.place(shard, row)), shard, letter)
            for row, result in shelf.rows(dead=False).items():
                self._answered(poison.get(outlook.template.place(shard, row)), shard, result)

    def _buried(self, kind: Poison | None, shard: int, letter: Mapping[str, Any]) -> None:
        own = letter["attempts"] - letter["infrastructure_losses"]
        unlucky = self._bad_luck(letter)
        # Its own tries beside the unlucky ones are what it deserves, at most.
        if letter["failure"] == EngineCrash.name and unlucky and own - unlucky <= DESERVED.get(kind, 0):
            return
        if kind is None or FATE.get(kind) != (letter["failure"], own):
            raise Broken(
                self.invariant,
                f"{shard}/{letter['row']} ({kind or 'healthy'}) is a dead letter: {letter['failure']}, {own} own tries",
            )

    def _answered(self, kind: Poison | None, shard: int, result: Mapping[str, Any]) -> None:
        own = result["attempts"] - result["infrastructure_losses"] - 1
        allowed = self._bad_luck(result, but=result["worker"]) + (kind is Poison.FLAKY)
        if kind in FATE or own > allowed:
            raise Broken(
                self.invariant, f"{shard}/{result['row']} ({kind or 'healthy'}) has a result after {own} own tries"
            )
