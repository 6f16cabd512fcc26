"""Waiting for what a scene needs, with an end: no scene sleeps and hopes."""

from __future__ import annotations

from collections.abc import Callable

from resources.clock import SystemClock

WAIT_S = 180.0
CLOCK = SystemClock()


def until(condition: Callable[[], object], what: str, *, within_s: float = WAIT_S) -> None:
    """Wait until `condition` holds; a scene that waits too long fails and says for what."""
    end_s = CLOCK.monotonic_s() + within_s
    while not condition():
        assert CLOCK.monotonic_s() < end_s, f"waited {within_s:g} s in vain: {what}"
        CLOCK.sleep(0.02)


def let_pass(seconds: float) -> None:
    """Let an outage last: the length of a fault, never a guess at when something has happened."""
    end_s = CLOCK.monotonic_s() + seconds
    until(lambda: CLOCK.monotonic_s() >= end_s, "time to pass", within_s=seconds + WAIT_S)
