"""Liveness is tokens moving, not a process existing: an engine that stands still with work in flight is killed (I4).

A killed engine is like one that died: what was in flight are suspects, so a record that hangs the engine is found out
like one that crashes it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from batch_assets.domain.ports import Clock
from worker.keeper import Pulse

log = logging.getLogger("worker")

LOOKS_PER_STALL = 10


class Watchdog:
    """A thread that looks at the engine's pulse ten times in `stall_s`, and kills it when tokens stood still that long.

    Time in which the worker itself is busy elsewhere (a store that is slow, a database that is away) does not count:
    nobody takes in tokens then. Nor does time in which the whole process stood still (SIGSTOP, a frozen machine): what
    lies between two looks counts for twice the interval at most.

    Args:
        pulse: tells how the engine does now.
        clock: for the waiting time.
        stall_s: seconds without a token that are borne while requests are in flight; 0 = for ever.
    """

    def __init__(self, pulse: Callable[[], Pulse], *, clock: Clock, stall_s: float) -> None:
        self._pulse = pulse
        self._clock = clock
        self._stall_s = stall_s
        self._stopped = threading.Event()
        self._seen: tuple[object, int] = (None, 0)
        self._steps = 0
        self._looked_s = clock.monotonic_s()
        self._stood_s = 0.0

    def start(self) -> None:
        """Start the thread, unless there is no bound."""
        if self._stall_s:
            threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def look(self) -> None:
        """Look once."""
        pulse = self._pulse()
        engine, now_s = pulse.engine, self._clock.monotonic_s()
        passed_s = min(now_s - self._looked_s, 2 * self._stall_s / LOOKS_PER_STALL)
        self._looked_s = now_s
        seen = (engine, engine.tokens_moved if engine is not None else 0)
        busy_elsewhere = not pulse.in_step and pulse.steps == self._steps
        self._steps = pulse.steps
        if engine is None or not pulse.in_flight or seen != self._seen or busy_elsewhere:
            self._seen, self._stood_s = seen, 0.0
            return
        self._stood_s += passed_s
        if self._stood_s >= self._stall_s:
            reason = f"the engine stood still: no token for {self._stood_s:.0f} s, {pulse.in_flight} in flight"
            log.warning("%s; it is killed", reason)
            self._stood_s = 0.0
            engine.kill(reason)

    def _run(self) -> None:
        while not self._stopped.wait(self._stall_s / LOOKS_PER_STALL):
            self.look()
