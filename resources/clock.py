"""The machine's clock: the one place that reads it, besides the databases."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """The `Clock` port on the machine's own clocks."""

    def monotonic_s(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def iso_utc(wall_s: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC, e.g. `2026-01-31T08:15:00.123456+00:00`."""
    return datetime.fromtimestamp(wall_s, tz=UTC).isoformat()
