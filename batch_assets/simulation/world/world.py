"""One world: a fleet of production workers on one clock, the weather of its seed, and checkers at each event.

`World(seed, made, duck).run()` plays it, with the templates and any DuckDB connection; the same seed is the same world.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import duckdb

from batch_assets.domain.errors import Permanent, ShardTableUnavailable, StoreUnavailable
from batch_assets.domain.lease import ShardState, claimable
from batch_assets.simulation.checkers.all import checkers
from batch_assets.simulation.checkers.base import Broken
from batch_assets.simulation.world.engine import Poisoned
from batch_assets.simulation.world.events import Event, ProcessEnded, ProcessStarted, Struck, tell
from batch_assets.simulation.world.hub import Hub, Killed, Process
from batch_assets.simulation.world.ledger import Ledger
from batch_assets.simulation.world.member import Ground, Member
from batch_assets.simulation.world.outlook import Outlook
from batch_assets.simulation.world.seams import Outages
from batch_assets.simulation.world.template import JOB, Template
from batch_assets.simulation.world.weather import SHAPES, Strike, Weather, forecast
from resources.result_store.store import open_result_store
from resources.shard_table.memory import MemoryShardTable
from worker.loop import Exit

FLEET_LOOK_S = 2.0
QUIET_LIMIT_S = 5_000.0  # after the weather is calm, every world must end within this


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a world went. `broken` is the first invariant that did not hold; `trace` has a line an event.

    `asked` counts requests to engines, `late_parts` parts that were put after a newer lease's base.
    """

    weather: Weather
    broken: Broken | None
    trace: tuple[str, ...]
    processes: int
    late_parts: int
    asked: int
    seconds: float

    def tell(self, lines: int = 60) -> str:
        """Return the end of the trace and how to see it again."""
        return "\n".join(
            [
                repr(self.weather),
                *self.trace[-lines:],
                f"world {self.weather.seed}: {self.broken or 'every invariant held'}",
                f"again: batch-assets simulate --world {self.weather.seed}",
            ]
        )


class World:
    """See the module's docstring."""

    def __init__(self, seed: int, made: Sequence[Template], duck: duckdb.DuckDBPyConnection) -> None:
        self._weather = forecast(seed, SHAPES)
        self._hub = Hub()
        template = made[self._weather.shape]
        store = open_result_store("memory://")
        template.fill(store)
        table = MemoryShardTable(lambda: self._hub.now_s)
        table.register(JOB, template.version, template.plan.shards)
        self._ground = Ground(
            template=template,
            weather=self._weather,
            hub=self._hub,
            store=store,
            table=table,
            duck=duck,
            outages=Outages(),
            poisoned=Poisoned(dict(self._weather.poison)),
        )
        self._random = Random(f"fleet {seed}")  # noqa: S311 - a simulation
        self._ledger = Ledger()
        self._outlook = Outlook(template=template, weather=self._weather, store=store, table=table)
        self._checkers = checkers()
        self._broken: Broken | None = None
        self._trace: list[str] = []
        self._members: list[Member] = []
        self._slots: dict[int, Member] = {}

    def run(self) -> Verdict:
        """Play it to the end: every shard done, every process ended, whoever was late has come back."""
        for slot in range(self._weather.workers):
            self._hub.at(0.0, lambda slot=slot: self._start(slot))  # type: ignore[misc]
        for strike in self._weather.strikes:
            self._hub.at(strike.at_s, lambda strike=strike: self._strike(strike))  # type: ignore[misc]
        with _quiet():
            ended = self._hub.run(self._over, limit_s=self._weather.calm_s + QUIET_LIMIT_S)
            if ended and self._broken is None:
                self._look_back()
            elif self._broken is None:
                self._broken = Broken("I4", f"the version never finishes: {self._states()}")
            self._hub.close(member.process for member in self._members)
        return Verdict(
            weather=self._weather,
            broken=self._broken,
            trace=tuple(self._trace),
            processes=len(self._members),
            late_parts=sum(len(shelf.late) for _, shelf in self._ledger),
            asked=self._ground.poisoned.asked.total(),
            seconds=self._hub.now_s,
        )

    def _over(self) -> bool:
        if self._broken is not None:
            return True
        return self._done() and not any(member.process.alive for member in self._members)

    def _has_work(self) -> bool:
        counts = self._outlook.table.counts(self._ground.template.version)
        cancelled = counts is not None and counts.cancelled
        return any(claimable(row, cancelled=cancelled, now_s=self._hub.now_s) for row in self._outlook.shards())

    def _done(self) -> bool:
        return all(row.state is ShardState.DONE for row in self._outlook.shards())

    def _states(self) -> str:
        return ", ".join(f"{row.shard} {row.state} under epoch {row.epoch}" for row in self._outlook.shards())

    def _start(self, slot: int) -> None:
        """Start a process in a slot, as soon as it would find something to claim; the fleet wakes idle slots so."""
        if self._done():
            return
        if not self._has_work():
            self._hub.at(self._hub.now_s + FLEET_LOOK_S, lambda: self._start(slot))
            return
        process = Process(f"w{slot}.{len(self._members)}")

        def told(kind: type[Event], fields: dict[str, object]) -> None:
            self._tell(kind(at_s=self._hub.now_s, process=process.name, **fields))

        def struck(what: str) -> None:
            told(Struck, {"what": what})
            if what.startswith("stall"):
                self._replace_stalled(slot)

        member = Member(self._ground, process, skew_s=self._random.uniform(-300, 300), tell=told, strike=struck)
        self._members.append(member)
        self._slots[slot] = member
        told(ProcessStarted, {})
        self._hub.start(process, lambda: self._live(slot, member))

    def _live(self, slot: int, member: Member) -> None:
        """Be the main thread of a process, and note how it ends."""
        how, pause_s = "killed", 1.0
        try:
            code = member.run()
        except Killed:
            raise
        except Permanent as error:
            how = f"exit 42: {error}"
            self._break(Broken("I4", f"{member.process.name} gave up for good: {error}"))
        except (StoreUnavailable, ShardTableUnavailable) as error:
            how, pause_s = f"exit 1: {type(error).__name__}: {error}", 2.0
        except Exception as error:  # noqa: BLE001 - what production code must never raise
            how = f"surprise: {error!r}"
            self._break(Broken("no surprise", f"{member.process.name} raised {error!r}"))
        else:
            how, pause_s = f"exit {code.value}", 5.0 if code is Exit.DONE else 1.0
        finally:
            self._hub.at(self._hub.now_s, lambda: self._ended(slot, member, how, pause_s))

    def _ended(self, slot: int, member: Member, how: str, pause_s: float) -> None:
        self._hub.kill(member.process)
        self._tell(ProcessEnded(at_s=self._hub.now_s, process=member.process.name, how=how))
        if self._slots.get(slot) is member:
            self._hub.at(self._hub.now_s + self._random.uniform(0.5, 1.5) * pause_s, lambda: self._start(slot))

    def _strike(self, strike: Strike) -> None:
        hit = [self._slots[slot] for slot in strike.slots if slot in self._slots and self._slots[slot].process.alive]
        names = ",".join(member.process.name for member in hit)
        until_s = self._hub.now_s + strike.for_s
        self._tell(Struck(at_s=self._hub.now_s, process=names or "-", what=f"{strike.what} for {strike.for_s:.1f} s"))
        match strike.what:
            case "kill" | "wave":
                for member in hit:
                    self._hub.kill(member.process)
            case "stall":
                for slot, member in zip(strike.slots, hit, strict=False):
                    member.process.frozen_until_s = max(member.process.frozen_until_s, until_s)
                    self._replace_stalled(slot)
            case "notice":
                for member in hit:
                    member.stop.request("notice")
            case "store away" | "table away":
                self._ground.outages.until_s[strike.what.split()[0]] = until_s
            case "cancel":
                self._ground.table.cancel(self._ground.template.version)
                self._hub.at(until_s, self._resume)
            case _:
                raise ValueError(strike.what)

    def _replace_stalled(self, slot: int) -> None:
        """Start another process, where the fleet takes a silent node for lost; the first one will be back."""
        if self._weather.replaces_stalled:
            self._hub.at(self._hub.now_s + 1.0, lambda: self._start(slot))

    def _resume(self) -> None:
        self._ground.table.resume(self._ground.template.version)
        self._tell(Struck(at_s=self._hub.now_s, process="-", what="resume"))

    def _tell(self, event: Event) -> None:
        self._trace.append(tell(event))
        if self._broken is not None:
            return
        try:
            for checker in self._checkers:
                checker.before(event, self._ledger, self._outlook)
            self._ledger.note(event)
            for checker in self._checkers:
                checker.after(event, self._ledger, self._outlook)
        except Broken as broken:
            self._break(broken)

    def _look_back(self) -> None:
        try:
            for checker in self._checkers:
                checker.end(self._ledger, self._outlook)
        except Broken as broken:
            self._break(broken)

    def _break(self, broken: Broken) -> None:
        self._broken = self._broken or broken


@contextmanager
def _quiet() -> Iterator[None]:
    """Thousands of worlds must not log thousands of lost leases."""
    log = logging.getLogger("worker")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
