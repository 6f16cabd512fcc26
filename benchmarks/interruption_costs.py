"""What interruptions cost, from the journals where the workers' fake engines note what they are asked and answer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


@dataclass(slots=True)
class Diary:
    """When each record was asked and answered, in seconds of `time.monotonic`; a record is (shard, row)."""

    asked: dict[tuple[int, int], float] = field(default_factory=dict)
    answered: dict[tuple[int, int], float] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Diary:
        """Read one worker's notes."""
        diary = cls()
        for line in path.read_text().splitlines():
            at_s, what, request_id = line.split()
            shard, epoch, row = map(int, request_id.split("/"))
            (diary.asked if what == "asked" else diary.answered)[shard, row] = float(at_s)
            diary.epochs[shard] = epoch
        return diary

    def in_flight(self, at_s: float) -> int:
        """Count the records that were in the engine at a moment."""
        return sum(
            at_s >= asked_s and self.answered.get(record, at_s + 1) > at_s for record, asked_s in self.asked.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one death cost.

    `in_flight` records were in the engine, and `asked_again` were asked again: these and the uncommitted ones. After
    `back_s` seconds the first of the dead worker's shards was worked on again (None: none had anything left to ask).
    `careful_s` is what its successors lost by asking their first records, the suspects, in small groups.
    """

    in_flight: int
    asked_again: int
    back_s: float | None
    careful_s: float


def cost_of(pid: int, died_s: float, diaries: dict[int, Diary], *, suspects: int, rate: float) -> Cost:
    """Say what a death cost, from everybody's notes to the end; `rate` is a worker's usual records/s."""
    dead = diaries[pid]
    again: set[tuple[int, int]] = set()
    back_s: list[float] = []
    careful_s = 0.0
    for diary in (diary for other, diary in diaries.items() if other != pid):
        again |= {record for record, asked_s in diary.asked.items() if asked_s > died_s and record in dead.asked}
        for shard, epoch in diary.epochs.items():
            if epoch <= dead.epochs.get(shard, epoch):
                continue
            asks = sorted(asked_s for (of_shard, _row), asked_s in diary.asked.items() if of_shard == shard)
            back_s.append(asks[0] - died_s)
            if epoch == dead.epochs[shard] + 1:
                first = asks[: suspects + 1]
                careful_s += max(0.0, first[-1] - first[0] - len(first) / rate)
    return Cost(
        in_flight=dead.in_flight(died_s),
        asked_again=len(again),
        back_s=round(min(back_s), 2) if back_s else None,
        careful_s=round(careful_s, 2),
    )


def middle_and_most(values: Sequence[float]) -> dict[str, float]:
    """Return median and maximum."""
    return {"median": round(statistics.median(values), 2), "max": round(max(values), 2)} if values else {}


def table(rows: Sequence[Row]) -> None:
    """Print the summaries as Markdown."""

    def cell(row: Row, key: str) -> str:
        value = row.get(key)
        return f"{value['median']:g} / {value['max']:g}" if value else ""

    keys = ("in_flight", "asked_again", "back_s", "careful_s", "exit_s")
    print("\n| median / most | times | in flight | asked again | shard back, s | careful, s | to the exit, s |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for row in rows:
        print(f"| {row['case']} | {row['interruptions']} | " + " | ".join(cell(row, key) for key in keys) + " |")
