"""Watching a run from outside: progress from the shard table, the end and its reason from Dagster's event log."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import dagster as dg

from batch_assets.domain.lease import ShardState
from batch_assets.domain.progress import ProgressMeter
from resources.platform import Platform

POLL_S = 0.25
LINE_INTERVAL_S = 1.0
ENDED = frozenset({dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended. `message` is the reason of a failure in one line, else empty."""

    run_id: str
    succeeded: bool
    cancelled: bool = False
    message: str = ""


def wait_for_run(instance: dg.DagsterInstance, run_id: str, platform: Platform, tick: Callable[[], None]) -> RunOutcome:
    """Wait until the run has ended; `tick` is called at each look.

    Whatever interrupts the waiting (Ctrl-C is a KeyboardInterrupt) cancels the run and waits for it to stop: its
    workers then drain and release their leases.
    """
    try:
        _wait(instance, run_id, platform, tick)
    except BaseException:
        instance.run_coordinator.cancel_run(run_id)
        _wait(instance, run_id, platform, tick)
        raise
    return outcome_of(instance, run_id)


def _wait(instance: dg.DagsterInstance, run_id: str, platform: Platform, tick: Callable[[], None]) -> None:
    while (run := instance.get_run_by_id(run_id)) is not None and run.status not in ENDED:
        tick()
        platform.clock.sleep(POLL_S)
    tick()


def outcome_of(instance: dg.DagsterInstance, run_id: str) -> RunOutcome:
    """Return how an ended run ended, with the first failed step's own words."""
    run = instance.get_run_by_id(run_id)
    status = run.status if run is not None else None
    succeeded = status is dg.DagsterRunStatus.SUCCESS
    return RunOutcome(
        run_id=run_id,
        succeeded=succeeded,
        cancelled=status is dg.DagsterRunStatus.CANCELED,
        message="" if succeeded else _reason(instance, run_id),
    )


def _reason(instance: dg.DagsterInstance, run_id: str) -> str:
    types = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.RUN_CANCELED}
    events = [entry.dagster_event for entry in instance.all_logs(run_id, of_type=types)]
    for event in events:
        if event is not None and event.is_step_failure:
            data = event.step_failure_data
            if data.user_failure_data is not None and data.user_failure_data.description:
                return data.user_failure_data.description
            if data.error is not None:
                return (data.error.cause or data.error).message.strip()
    return next((event.message for event in events if event is not None and event.message), "no reason was logged")


class ProgressLines:
    """Says the progress of a version's shards, a line each `LINE_INTERVAL_S` and one at the end, if it changed."""

    def __init__(
        self, platform: Platform, version: str, shards: Collection[int] | None, on_line: Callable[[str], None]
    ) -> None:
        self._platform = platform
        self._version = version
        self._shards = None if shards is None else frozenset(shards)
        self._on_line = on_line
        self._meter: ProgressMeter | None = None
        self._next_s = 0.0
        self._said = ""
        self._ended = False

    def __call__(self) -> None:
        """Look at the shard table if it is time."""
        now_s = self._platform.clock.monotonic_s()
        if now_s < self._next_s or self._ended:
            return
        self._next_s = now_s + LINE_INTERVAL_S
        rows = [
            row
            for row in self._platform.table.shards(self._version)
            if self._shards is None or row.shard in self._shards
        ]
        total = sum(row.records for row in rows)
        if self._meter is None:
            self._meter = ProgressMeter(total=total, shards_total=len(rows), started_s=now_s)
        done = sum(row.records - row.pending_records for row in rows)
        finished = sum(row.state is ShardState.DONE for row in rows)
        self._ended = finished == len(rows)
        line = self._meter.look(done=done, shards_done=finished, now_s=now_s).line()
        if line != self._said:
            self._said = line
            self._on_line(line)
