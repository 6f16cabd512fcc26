"""Finding the record that kills the engine: suspects are rerun in halves until the killer stands alone (I4).

An engine that died with W records in flight makes those W suspects. Nobody is charged for dying in company. A group
that dies is split; a group of one that dies is the killer, and is charged. So one poison record costs at most
log2(W) deaths until it is alone, and `attempts_max` deaths alone. Before a suspect is asked alone, the engine answers a
witness, a record that nobody suspects: where a machine is broken the witness dies, and nobody is charged.

The same holds when the whole worker dies: the order in which a shard's records are asked is the same for every owner,
and the shard table counts the leases that ended uncleanly. A successor asks the first unanswered records in groups of
half its predecessor's size and commits each group before the next: those in flight at a death are always the first
unanswered ones.
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

    def add_last(self, group: Sequence[Record]) -> None:
        """Put a group behind all others."""
        if group:
            self._waiting.append(list(group))

    @property
    def next_is_alone(self) -> bool:
        """Whether the next group is a single suspect, to be charged if the engine dies of it."""
        return not self._running and bool(self._waiting) and len(self._waiting[0]) == 1

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


def suspect_group(unclean_ends: int, *, window: int) -> int:
    """Return how many suspects are asked at once after so many unclean ends: half as many each time, down to one."""
    return max(1, window >> unclean_ends)


def suspects_after(unclean_ends: int, *, window: int, part_records_max: int) -> int:
    """Return how many of a shard's first unanswered records may have been in flight when its last lease ended.

    After one unclean end these are the window and, before it, what was answered but not committed yet; after more of
    them just the group that was in flight.
    """
    if unclean_ends == 0:
        return 0
    if unclean_ends == 1:
        return window + part_records_max
    return suspect_group(unclean_ends - 1, window=window)
