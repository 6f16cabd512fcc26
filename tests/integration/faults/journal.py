"""What the fake engines of a scene were asked and have answered, whatever became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a record (shard and row) and the epoch of the lease under which it was asked or answered."""

    what: str
    shard: int
    epoch: int
    row: int

    @property
    def record(self) -> tuple[int, int]:
        """The record's place."""
        return self.shard, self.row


@dataclass(frozen=True)
class Journal:
    """The folder that `FakeFaults.journal` names; each process of the scene has a file in it."""

    path: Path

    def entries(self) -> list[Entry]:
        """Return the lines, oldest first; the last of a file may still be under way."""
        texts = [path.read_text() for path in self.path.glob("*.log")]
        lines = [line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]
        return [_entry(line) for line in sorted(lines, key=lambda line: float(line.split()[0]))]

    def asked(self, epoch: int | None = None) -> int:
        """How often a record was asked (under one epoch)."""
        return self._count("asked", epoch)

    def answered(self, epoch: int | None = None) -> int:
        """How often a record was answered (under one epoch)."""
        return self._count("answered", epoch)

    @property
    def recomputed(self) -> int:
        """Records asked more than once count for each time but the first: what the faults have cost."""
        asked = [entry.record for entry in self.entries() if entry.what == "asked"]
        return len(asked) - len(set(asked))

    def _count(self, what: str, epoch: int | None) -> int:
        return sum(entry.what == what and epoch in {None, entry.epoch} for entry in self.entries())


def _entry(line: str) -> Entry:
    _at_s, what, request_id = line.split()
    shard, epoch, row = map(int, request_id.split("/"))
    return Entry(what, shard, epoch, row)
