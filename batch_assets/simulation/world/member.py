"""One worker process of a world: production loop, keeper, committer and heartbeat, wired as in `worker.__main__`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from batch_assets.domain.ports import ObjectStore, ShardTable
from batch_assets.simulation.world.engine import Poisoned, WorldEngine
from batch_assets.simulation.world.events import Event
from batch_assets.simulation.world.hub import Hub, HubExecutor, Process
from batch_assets.simulation.world.seams import Outages, Seams
from batch_assets.simulation.world.store import WorldStore
from batch_assets.simulation.world.table import WorldTable
from batch_assets.simulation.world.template import JOB, Template
from batch_assets.simulation.world.weather import ENGINE_STALL_S, Weather
from resources.platform import Platform
from resources.prompting.renderer import open_renderer
from worker.answers import AnswerReader
from worker.commits import Committer
from worker.drain import StopSignal
from worker.heartbeat import Heartbeat
from worker.keeper import EngineKeeper
from worker.loop import Assignment, Exit, Limits, Tools, Worker
from worker.opening import ShardOpener
from worker.successor import Successor
from worker.watchdog import LOOKS_PER_STALL, Watchdog

DRAIN_S = 10.0
ENGINE_RESTARTS_MAX = 16
WATCH_INTERVAL_S = ENGINE_STALL_S / LOOKS_PER_STALL
WALL_START_S = 1_767_225_600.0


class WorldClock:
    """The `Clock` port of one process; `skew_s` is how wrong its wall clock is."""

    def __init__(self, hub: Hub, skew_s: float) -> None:
        self._hub = hub
        self._skew_s = skew_s

    def monotonic_s(self) -> float:
        """Seconds from the start of the world."""
        return self._hub.now_s

    def wall_s(self) -> float:
        """Seconds since 1970, as this machine has it."""
        return WALL_START_S + self._hub.now_s + self._skew_s

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._hub.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the processes of a world share."""

    template: Template
    weather: Weather
    hub: Hub
    store: ObjectStore
    table: ShardTable
    duck: duckdb.DuckDBPyConnection
    outages: Outages
    poisoned: Poisoned


class Member:
    """A process; `run` is its main thread."""

    def __init__(
        self,
        ground: Ground,
        process: Process,
        *,
        skew_s: float,
        tell: Callable[[type[Event], dict[str, object]], None],
        strike: Callable[[str], None],
    ) -> None:
        self._ground = ground
        self.process = process
        self._tell = tell
        self._seams = Seams(ground.hub, process, ground.weather, ground.outages, strike)
        self._clock = WorldClock(ground.hub, skew_s)
        self.stop = StopSignal(self._clock, DRAIN_S)

    def run(self) -> Exit:
        """Work as `worker/__main__.py` does."""
        ground, weather = self._ground, self._ground.weather
        template = ground.template
        spec = template.spec
        store = WorldStore(ground.store, self._seams, self._tell)
        table = WorldTable(ground.table, self._seams, self._tell)
        platform = Platform(template.settings, store, table, self._clock)
        entry = platform.registry.read(JOB, template.version)
        opener = ShardOpener(platform, entry, open_renderer(spec, Path(spec.model.path)))
        keeper = EngineKeeper(
            lambda: WorldEngine(template, weather, ground.hub, self._seams, ground.poisoned, self._tell),
            restarts_max=ENGINE_RESTARTS_MAX,
            token_limit=lambda _: spec.decoding.max_tokens,
        )
        with HubExecutor(ground.hub, self.process) as executor:
            committer = Committer(
                store, table, spec, executor, lease_ttl_s=weather.lease_ttl_s, duck=ground.duck.cursor()
            )
            successor = Successor(
                table, committer, keeper, window=template.window, part_records_max=weather.part_records_max
            )
            worker = Worker(
                Assignment(worker=self.process.name, version=template.version, spec=spec, shards=None),
                Tools(
                    table=table,
                    open_shard=opener.open,
                    answers=AnswerReader(spec, template.version, entry.snapshot),
                    committer=committer,
                    keeper=keeper,
                    successor=successor,
                    clock=self._clock,
                    stop=self.stop,
                    memory_mb=lambda: 0.0,
                ),
                Limits(
                    window=template.window,
                    part_records_max=weather.part_records_max,
                    part_interval_s=weather.part_interval_s,
                    lease_ttl_s=weather.lease_ttl_s,
                    memory_mb_max=0,
                ),
            )
            heartbeat = Heartbeat(
                table,
                lambda: worker.open_shards,
                worker.beat,
                clock=self._clock,
                ttl_s=weather.lease_ttl_s,
                interval_s=weather.heartbeat_interval_s,
            )
            watchdog = Watchdog(lambda: keeper.pulse, clock=self._clock, stall_s=ENGINE_STALL_S)
            working = [True]
            ground.hub.start(self.process, lambda: self._beat(heartbeat, working), weather.heartbeat_interval_s)
            ground.hub.start(self.process, lambda: self._watch(watchdog, working), WATCH_INTERVAL_S)
            try:
                return worker.run()
            finally:
                working.clear()

    def _watch(self, watchdog: Watchdog, working: list[bool]) -> None:
        while working:
            watchdog.look()
            self._ground.hub.sleep(WATCH_INTERVAL_S)

    def _beat(self, heartbeat: Heartbeat, working: list[bool]) -> None:
        while working:
            heartbeat.beat()
            self._ground.hub.sleep(self._ground.weather.heartbeat_interval_s)
