"""A plan: the shards of a job version. The same snapshot and shard size always give the same plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from batch_assets.domain.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows `start` (included) to `stop` (excluded) of the snapshot's object number `object_index`."""

    object_index: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A contiguous piece of a snapshot.

    `records` counts its rows, `refused` those that planning made dead letters; the worker answers the rest.
    """

    index: int
    slices: tuple[Slice, ...]
    records: int
    refused: int
    estimated_tokens: int

    @property
    def key(self) -> str:
        """The shard's Dagster partition key: five digits, so that text order is number order."""
        return shard_key(self.index)

    def locate(self, row: int) -> tuple[int, int]:
        """Return (object index, row of that object) of the shard's row number `row`, from 0.

        Raises:
            IndexError: the shard has no such row.
        """
        left = row
        for piece in self.slices:
            if left < piece.rows:
                return piece.object_index, piece.start + left
            left -= piece.rows
        raise IndexError(f"shard {self.index} has {self.records} rows, not a row {row}")


SHARDS_MAX = 100_000


def shard_key(index: int) -> str:
    """Return the partition key of shard number `index`."""
    return f"{index:05d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All shards of one job version."""

    version: str
    shards: tuple[Shard, ...]

    @property
    def records(self) -> int:
        """Rows of the snapshot."""
        return sum(shard.records for shard in self.shards)

    @property
    def refused(self) -> int:
        """Rows that planning made dead letters."""
        return sum(shard.refused for shard in self.shards)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives the plan back."""
        return {"version": self.version, "shards": [asdict(shard) for shard in self.shards]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        """Build a plan from `to_json`'s form."""
        shards = tuple(
            Shard(**{**shard, "slices": tuple(Slice(**piece) for piece in shard["slices"])})
            for shard in value["shards"]
        )
        return cls(version=value["version"], shards=shards)


def cut_shards(object_rows: Sequence[int], shard_size: int) -> list[tuple[Slice, ...]]:
    """Cut objects with these row counts into contiguous pieces of `shard_size` rows; only the last may be smaller.

    Raises:
        InputError: there would be more than `SHARDS_MAX` shards (Dagster's own advice for one asset's partitions).
    """
    total = sum(object_rows)
    if total > shard_size * SHARDS_MAX:
        least = -(-total // SHARDS_MAX)
        raise InputError(
            f"{total} records in shards of {shard_size} are over {SHARDS_MAX} shards; use shard_size {least}"
        )
    shards: list[tuple[Slice, ...]] = []
    open_slices: list[Slice] = []
    room = shard_size
    for object_index, rows in enumerate(object_rows):
        start = 0
        while start < rows:
            stop = min(rows, start + room)
            open_slices.append(Slice(object_index=object_index, start=start, stop=stop))
            room -= stop - start
            start = stop
            if room == 0:
                shards.append(tuple(open_slices))
                open_slices, room = [], shard_size
    if open_slices:
        shards.append(tuple(open_slices))
    return shards


def parse_shards(text: str) -> tuple[int, ...]:
    """Read `0-3,7` as shard numbers, sorted, without repeats; the opposite of `format_shards`.

    Raises:
        ValueError: a piece is not a number or a rising range.
    """
    numbers: set[int] = set()
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        low, high = int(first), int(last if dash else first)
        if high < low:
            raise ValueError(f"{piece!r} is not a rising range")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def format_shards(numbers: Sequence[int]) -> str:
    """Write shard numbers as ranges, e.g. `0-3,7`."""
    pieces: list[list[int]] = []
    for number in sorted(set(numbers)):
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in pieces)
