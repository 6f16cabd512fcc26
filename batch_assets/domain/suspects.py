"""Finding the record that kills the engine: suspects are rerun in halves until the killer stands alone (I4).

An engine that died with W records in flight makes those W suspects. Nobody is charged for dying in company. A group
that dies is split; a group of one that dies is the killer, and is charged. So one poison record costs at most
log2(W) deaths until it is alone, and `attempts_max` deaths alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

Record = TypeVar("Record", bound=Hashable)


class Suspects(Generic[Record]):
    """Groups of suspects that wait for their turn, the next one first; one group is in flight at a time."""

    def __init__(self) -> None:
        self._waiting: list[list[Record]] = []
        self._running: list[Record] = []

    def __len__(self) -> int:
        return sum(map(len, self._waiting)) + len(self._running)

    @property
    def running(self) -> tuple[Record, ...]:
        """Suspects in flight that have not come back."""
        return tuple(self._running)

    def accuse(self, records: Sequence[Record]) -> Record | None:
        """Note a death with these records in flight; return the killer if it stood alone, to be charged by the caller.

        The killer is not kept: whoever charges it decides whether it runs again (`add`).
        """
        self._running = []
        if len(records) == 1:
            return records[0]
        middle = (len(records) + 1) // 2
        self._waiting[:0] = [list(group) for group in (records[:middle], records[middle:]) if group]
        return None

    def add(self, group: Sequence[Record]) -> None:
        """Put a group before all others."""
        if group:
            self._waiting.insert(0, list(group))

    def next_group(self) -> tuple[Record, ...]:
        """Return the next group to put in flight, once the running one has come back; empty if there is none now."""
        if self._running or not self._waiting:
            return ()
        self._running = self._waiting.pop(0)
        return tuple(self._running)

    def cleared(self, record: Record) -> None:
        """Note that a suspect came back: it did not kill the engine."""
        if record in self._running:
            self._running.remove(record)

    def forget(self, records: Iterable[Record]) -> None:
        """Drop suspects that are nobody's business any more: their shard was lost."""
        gone = set(records)
        self._running = [record for record in self._running if record not in gone]
        groups = ([record for record in group if record not in gone] for group in self._waiting)
        self._waiting = [group for group in groups if group]

    def __iter__(self) -> Iterator[Record]:
        yield from self._running
        for group in self._waiting:
            yield from group
