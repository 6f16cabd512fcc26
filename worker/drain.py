"""When to stop: SIGTERM or SIGINT, the death of the parent, a cloud's notice; and how long there is."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from batch_assets.domain.ports import Clock
from worker.engine.orphan_guard import die_with_parent


class StopSignal:
    """Set once, by whoever notices first; the loop looks at it between steps."""

    def __init__(self, clock: Clock, drain_s: float) -> None:
        self._clock = clock
        self._drain_s = drain_s
        self._event = threading.Event()
        self._deadline_s = 0.0
        self.reason = ""

    @property
    def requested(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    def request(self, reason: str) -> None:
        """Ask for a stop; the drain budget runs from the first request."""
        if not self._event.is_set():
            self.reason = reason
            self._deadline_s = self._clock.monotonic_s() + self._drain_s
            self._event.set()

    @property
    def left_s(self) -> float:
        """Seconds of the drain budget that are left."""
        return max(0.0, self._deadline_s - self._clock.monotonic_s())

    def wait(self, seconds: float) -> bool:
        """Wait for a stop; True if there is one."""
        return self._event.wait(seconds)


def listen(stop: StopSignal, parent_pid: int | None) -> None:
    """Turn signals into a stop, and the parent's death into a signal.

    Call it in the main thread, before the engine is built. A parent that died before the kernel was asked shows as
    another parent pid.
    """

    def handle(signum: int, _frame: FrameType | None) -> None:
        stop.request(signal.Signals(signum).name)

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    if parent_pid is not None:
        die_with_parent(signal.SIGTERM)
        if os.getppid() != parent_pid:
            stop.request("the parent process is gone")
