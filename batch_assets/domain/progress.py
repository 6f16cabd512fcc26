"""How far a run is and when it will end, from counts at two times."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One look at a run. `records_per_s` is over the last window; `eta_s` is None while nothing moves."""

    done: int
    total: int
    shards_done: int
    shards_total: int
    elapsed_s: float
    records_per_s: float
    eta_s: float | None

    def line(self) -> str:
        """One line for people: done / total, shards, records/s, time left."""
        share = 100 * self.done / self.total if self.total else 100.0
        left = "no estimate yet" if self.eta_s is None else f"ETA {_clock(self.eta_s)}"
        return (
            f"{self.done:,} / {self.total:,} records ({share:.0f}%)  shards {self.shards_done}/{self.shards_total}  "
            f"{self.records_per_s:,.1f} records/s  {left}"
        )


def _clock(seconds: float) -> str:
    whole = int(seconds + 0.5)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


class ProgressMeter:
    """Turns counts into `Progress`; the rate is over the last `window_s` seconds, so that a stall shows."""

    def __init__(self, *, total: int, shards_total: int, started_s: float, window_s: float = 30.0) -> None:
        self._total = total
        self._shards_total = shards_total
        self._started_s = started_s
        self._window_s = window_s
        self._points: deque[tuple[float, int]] = deque()

    def look(self, *, done: int, shards_done: int, now_s: float) -> Progress:
        """Note the counts at `now_s` and return the progress."""
        self._points.append((now_s, done))
        while len(self._points) > 2 and self._points[1][0] <= now_s - self._window_s:  # noqa: PLR2004 - two ends
            self._points.popleft()
        first_s, first = self._points[0]
        rate = (done - first) / (now_s - first_s) if now_s > first_s else 0.0
        return Progress(
            done=done,
            total=self._total,
            shards_done=shards_done,
            shards_total=self._shards_total,
            elapsed_s=now_s - self._started_s,
            records_per_s=rate,
            eta_s=(self._total - done) / rate if rate > 0 else None,
        )
