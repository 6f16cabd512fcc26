"""A calendar of things to come, in order of time; what falls on the same moment comes in order of entry."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

Event = Callable[[float], None]


class Calendar:
    """Calls each event with its moment, in seconds from the start."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, Event]] = []
        self._order = itertools.count()

    def at(self, moment_s: float, event: Event) -> None:
        """Enter an event."""
        heapq.heappush(self._events, (moment_s, next(self._order), event))

    def run(self, until_s: float, before_each: Callable[[float], None]) -> None:
        """Call every event up to `until_s`, also those that events enter."""
        while self._events and self._events[0][0] <= until_s:
            moment_s, _, event = heapq.heappop(self._events)
            before_each(moment_s)
            event(moment_s)
