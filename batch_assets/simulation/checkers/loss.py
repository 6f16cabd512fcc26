"""I8: an interruption loses the records in flight and what came since the last part: seconds of work, never a shard."""

from __future__ import annotations

from typing import ClassVar

from batch_assets.simulation.checkers.base import Broken, Silent
from batch_assets.simulation.world.events import (
    Answered,
    Claimed,
    Event,
    PartStands,
    ProcessEnded,
    Refused,
    Struck,
)
from batch_assets.simulation.world.ledger import Ledger
from batch_assets.simulation.world.outlook import Outlook
from batch_assets.simulation.world.weather import ENGINE_STALL_S, Poison

PARTS_WAITING_MAX = 5  # behind a store that does not answer: four in the committer's queue and one on its way
HINDRANCES = ("stall", "lost answer", "no answer", "a slow call")
AWAY_SLACK_S = 15.0  # the last try of a call that had waited
SLACK_S = 1.0  # a part's own way to the store, and a few calls of the shard table before it


class BoundedLoss(Silent):
    """Keeps, for each process, when each answer came that no part holds yet.

    A stall, a lost answer or a store that is away stands between an answer and its part, and how long is not the
    worker's choice: until such a process has caught up, only the number of its answers is bounded.
    """

    invariant: ClassVar[str] = "I8"

    def __init__(self) -> None:
        self._unsaved: dict[str, dict[tuple[int, int], float]] = {}
        self._hindered: set[str] = set()
        self._fenced: set[tuple[str, int]] = set()
        self._away_until_s = 0.0

    def after(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:  # noqa: ARG002
        """Note answers and parts; at a death, check the age of what is lost."""
        unsaved = self._unsaved.setdefault(event.process, {})
        match event:
            case Claimed() | Refused():
                self._lease(event, unsaved)
            case Answered(shard=shard, row=row) if (event.process, shard) not in self._fenced:
                if outlook.template.place(shard, row) not in dict(outlook.weather.poison):
                    unsaved[shard, row] = event.at_s
                if event.at_s < self._away_until_s:
                    self._hindered.add(event.process)
            case PartStands(shard=shard, rows=rows):
                for saved in rows:
                    unsaved.pop((shard, saved["row"]), None)
                if event.at_s >= self._away_until_s and _oldest_s(unsaved, event.at_s) <= _allowed_s(outlook):
                    self._hindered.discard(event.process)
            case Struck(what=what):
                self._struck(event, what)
            case ProcessEnded(how=how) if how == "killed":
                self._died(event, unsaved, outlook)
            case _:
                return

    def _lease(self, event: Claimed | Refused, unsaved: dict[tuple[int, int], float]) -> None:
        """What a process has of a shard that it lost is thrown away, and was never its to lose."""
        if isinstance(event, Claimed):
            self._fenced.discard((event.process, event.lease.shard))
            return
        self._fenced.add((event.process, event.lease.shard))
        for place in [place for place in unsaved if place[0] == event.lease.shard]:
            del unsaved[place]

    def _struck(self, event: Struck, what: str) -> None:
        if what.startswith(HINDRANCES):
            self._hindered.add(event.process)
        elif " away for " in what:
            self._away_until_s = event.at_s + float(what.split()[-2]) + AWAY_SLACK_S
            self._hindered.update(self._unsaved)

    def _died(self, event: ProcessEnded, unsaved: dict[tuple[int, int], float], outlook: Outlook) -> None:
        hindered = event.process in self._hindered
        rows_max = outlook.weather.part_records_max + 2 * outlook.template.window
        if len(unsaved) > rows_max * (1 + PARTS_WAITING_MAX if hindered else 1):
            raise Broken(self.invariant, f"{event.process} took {len(unsaved)} answers with it; {rows_max} are allowed")
        oldest_s, allowed_s = _oldest_s(unsaved, event.at_s), _allowed_s(outlook)
        if oldest_s > allowed_s and not hindered:
            took = f"{event.process} took an answer of {oldest_s:.1f} s with it"
            raise Broken(self.invariant, f"{took}; {allowed_s:.1f} s is allowed")


def _oldest_s(unsaved: dict[tuple[int, int], float], now_s: float) -> float:
    return now_s - min(unsaved.values(), default=now_s)


def _allowed_s(outlook: Outlook) -> float:
    """Return how old an answer may be without a part: the interval, and the step during which it became due."""
    weather = outlook.weather
    # While an engine stands still nobody commits: what waits are answers of at most one interval, however old.
    stands = 2 * ENGINE_STALL_S if Poison.HANG in dict(weather.poison).values() else 0.0
    return weather.part_interval_s + 1.5 * weather.step_s + SLACK_S + stands
