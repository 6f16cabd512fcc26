"""Where a worker meets the world: every call of the store and the shard table, with what can happen to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NoReturn, TypeVar

from batch_assets.domain.errors import BatchError, ShardTableUnavailable, StoreUnavailable
from batch_assets.simulation.world.hub import Hub, Killed, Process
from batch_assets.simulation.world.weather import Seam, Weather

T = TypeVar("T")

PATIENCE_S = 10.0  # how long an adapter goes on retrying before it says that the other side is away
LATENCY_S = 0.02
_BEFORE = frozenset({Seam.DIE_BEFORE, Seam.FAIL_BEFORE, Seam.STALL_BEFORE, Seam.SLOW})
_AFTER = frozenset({Seam.DIE_AFTER, Seam.FAIL_AFTER, Seam.STALL_AFTER})
_READS = frozenset({Seam.DIE_BEFORE, Seam.FAIL_BEFORE, Seam.SLOW})
_AWAY: dict[str, type[BatchError]] = {"store": StoreUnavailable, "table": ShardTableUnavailable}


@dataclass(slots=True)
class Outages:
    """Until when the store and the shard table are away."""

    until_s: dict[str, float] = field(default_factory=lambda: {"store": 0.0, "table": 0.0})


class Seams:
    """One process's calls to the world. `strike` tells the world's trace what was done to it."""

    def __init__(
        self, hub: Hub, process: Process, weather: Weather, outages: Outages, strike: Callable[[str], None]
    ) -> None:
        self._hub = hub
        self._process = process
        self._weather = weather
        self._outages = outages
        self._strike = strike
        self._random = Random(f"{weather.seed} {process.name}")  # noqa: S311 - a simulation

    def read(self, where: str, call: Callable[[], T]) -> T:
        """Make a call without effect on `where` (`store`, `table`)."""
        return self._call(where, call, self._draw(_READS))

    def write(self, where: str, call: Callable[[], T]) -> T:
        """Make a call with an effect."""
        return self._call(where, call, self._draw(frozenset(Seam)))

    def sometimes(self, rate: float) -> bool:
        """Draw whether something of this rate happens now; nothing does once the weather is calm."""
        return self._random.random() < rate and self._hub.now_s < self._weather.calm_s

    def die(self) -> NoReturn:
        """End the process that calls."""
        self._hub.kill(self._process)
        raise Killed(self._process.name)

    def spread(self, seconds: float) -> float:
        """Return a duration around `seconds`."""
        return self._random.uniform(0.5, 1.5) * seconds

    def _draw(self, possible: frozenset[Seam]) -> Seam | None:
        for seam, rate in self._weather.seams:
            if seam in possible and self.sometimes(rate):
                return seam
        return None

    def _call(self, where: str, call: Callable[[], T], fault: Seam | None) -> T:
        self._process.check()
        self._hub.sleep(self.spread(LATENCY_S))
        self._wait_while_away(where)
        if fault in _BEFORE:
            self._happen(fault, where)
        value = call()
        if fault is Seam.TWICE:
            self._strike(f"{fault.value} ({where})")
            self._hub.sleep(self.spread(PATIENCE_S / 4))
            value = call()
        elif fault in _AFTER:
            self._happen(fault, where)
        self._hub.sleep(self.spread(LATENCY_S))
        return value

    def _wait_while_away(self, where: str) -> None:
        left_s = self._outages.until_s[where] - self._hub.now_s
        if left_s > 0:
            self._hub.sleep(min(left_s, PATIENCE_S))
        if self._outages.until_s[where] > self._hub.now_s:
            raise _AWAY[where](f"the {where} is away")

    def _happen(self, fault: Seam, where: str) -> None:
        self._strike(f"{fault.value} ({where})")
        match fault:
            case Seam.DIE_BEFORE | Seam.DIE_AFTER:
                self.die()
            case Seam.FAIL_BEFORE | Seam.FAIL_AFTER:
                self._hub.sleep(self.spread(PATIENCE_S))
                raise _AWAY[where](f"the {where} gave no answer")
            case Seam.STALL_BEFORE | Seam.STALL_AFTER:
                stall_s = self._random.choice((0.5, 1.5, 2.0, 3.0)) * self._weather.lease_ttl_s
                self._process.frozen_until_s = max(self._process.frozen_until_s, self._hub.now_s + stall_s)
                self._hub.sleep(0.0)
            case _:
                self._hub.sleep(self._random.choice((0.1, 0.5, 1.2)) * self._weather.lease_ttl_s)
