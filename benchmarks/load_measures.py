"""What the load benchmark asks for and what it measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to ask of the database at `url`.

    `kind` is `shards` (simulated workers), or `psycopg2` or `sqlalchemy` (the bare baselines). `rows_per_s` is one
    worker's (0: as fast as it can), `seconds` the time from start to end. With `parts_folder`, every part is also made:
    a Parquet object of `part_rows` rows, put into a local store there.
    """

    url: str
    version: str
    workers: int
    processes: int
    seconds: float
    kind: str = "shards"
    rows_per_s: float = 0.0
    part_rows: int = 400
    shard_rows: int = 5_000
    heartbeat_s: float = 30.0
    lease_ttl_s: float = 600.0
    parts_folder: Path | None = None


@dataclass(slots=True)
class Measured:
    """Seconds of every call by kind, rows whose renewal or completion was accepted, and the worst lag in seconds."""

    calls: dict[str, list[float]] = field(default_factory=dict)
    rows: int = 0
    lag_s: float = 0.0

    def timed(self, kind: str, call: Callable[[], T]) -> T:
        """Make a call and note its seconds."""
        started = time.perf_counter()
        answer = call()
        self.calls.setdefault(kind, []).append(time.perf_counter() - started)
        return answer

    def add(self, other: Measured) -> None:
        """Take another's measurements in."""
        for kind, seconds in other.calls.items():
            self.calls.setdefault(kind, []).extend(seconds)
        self.rows += other.rows
        self.lag_s = max(self.lag_s, other.lag_s)

    @property
    def transactions(self) -> int:
        """How many calls there were that change the database."""
        return sum(len(seconds) for kind, seconds in self.calls.items() if kind not in {"open", "part object"})

    def milliseconds(self) -> dict[str, dict[str, float]]:
        """Return count, p50, p99 and maximum of each kind of call, in milliseconds."""
        return {kind: quantiles(seconds) for kind, seconds in sorted(self.calls.items())}


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Return count, p50, p99 and maximum in milliseconds."""
    ranked = sorted(seconds)

    def at(share: float) -> float:
        return round(1_000 * ranked[min(len(ranked) - 1, int(len(ranked) * share))], 2)

    return {"count": len(ranked), "p50": at(0.5), "p99": at(0.99), "max": at(1.0)}
