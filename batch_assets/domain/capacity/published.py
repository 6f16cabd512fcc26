"""The published model of three ways to write (shard-append, shard-keyed, item-keyed), draw for draw.

Where its description leaves room, the choice here is the one that gives all nine published cells
(docs/simulation.md has the table): a late writer's records count when it writes; shards that stand in the ready queue
are redone even if their records have results; a run goes on after its makespan until nothing is ready or being worked
on, and what is written and lost by then counts.
"""

from __future__ import annotations

import math
from collections import deque

from batch_assets.domain.capacity.events import Calendar
from batch_assets.domain.capacity.question import Answer, Chance, Mode, Question, horizon_s


class PublishedRun:
    """One run of one mode."""

    def __init__(self, question: Question, chance: Chance) -> None:
        self._question = question
        self._chance = chance
        self._calendar = Calendar()
        self._sizes = question.shard_records()
        self._answered = [0] * len(self._sizes)
        self._ready = deque(range(len(self._sizes)))
        self._missing = question.records
        self._rows = 0
        self._lost_s = 0.0
        self._makespan_s = math.inf

    def run(self) -> Answer:
        """Return what it came to."""
        for worker in range(self._question.workers):
            self._start(worker)
        self._calendar.run(horizon_s(self._question), self._look)
        doubled = self._rows - self._question.records if self._question.mode is Mode.SHARD_APPEND else 0
        return Answer(makespan_s=self._makespan_s, lost_gpu_s=self._lost_s, duplicate_rows=doubled)

    def _start(self, worker: int) -> None:
        self._calendar.at(self._question.load_s, lambda now_s: self._idle(worker, now_s))

    def _look(self, now_s: float) -> None:
        """Note the first event at which every record has a result."""
        if self._missing == 0:
            self._makespan_s = min(self._makespan_s, now_s)

    def _write(self, shard: int, records: int) -> None:
        """Add results to a shard, up to its `records`-th; written rows are counted by who writes."""
        self._missing -= max(0, records - self._answered[shard])
        self._answered[shard] = max(records, self._answered[shard])

    def _idle(self, worker: int, now_s: float) -> None:
        if not self._ready:
            if self._missing:
                self._calendar.at(now_s + self._question.look_again_s, lambda at_s: self._idle(worker, at_s))
            return
        shard = self._ready.popleft()
        by_item = self._question.mode is Mode.ITEM_KEYED
        todo = self._sizes[shard] - (self._answered[shard] if by_item else 0)
        work_s = self._question.overhead_s + todo / self._question.rate
        gap_s = self._chance.until_interruption_s(worker, now_s)
        if gap_s < work_s:
            self._interrupt(worker, shard, todo, now_s, gap_s)
            return
        if by_item:
            self._write(shard, self._sizes[shard])
        self._calendar.at(now_s + work_s, lambda at_s: self._complete(worker, shard, at_s))

    def _complete(self, worker: int, shard: int, now_s: float) -> None:
        self._rows += self._sizes[shard]
        self._write(shard, self._sizes[shard])
        # The makespan is the moment of the first event that finds nothing missing: this one, before the next take.
        self._look(now_s)
        self._idle(worker, now_s)

    def _interrupt(self, worker: int, shard: int, todo: int, now_s: float, gap_s: float) -> None:
        question = self._question
        by_item = question.mode is Mode.ITEM_KEYED
        finished = min(todo, max(0, math.floor((gap_s - question.overhead_s) * question.rate)))
        self._calendar.at(now_s + gap_s + question.lease_s, lambda _: self._ready.append(shard))
        stalled = self._chance.is_stall(worker, now_s + gap_s)
        if by_item:
            self._write(shard, self._answered[shard] + finished)
        if stalled:
            stall_s = question.lease_s + question.stall_extra_s
            redone = todo - finished if by_item else todo
            self._lost_s += stall_s + redone / question.rate
            late_s = now_s + question.overhead_s + todo / question.rate + stall_s
            self._calendar.at(late_s, lambda at_s: self._complete(worker, shard, at_s))
        else:
            self._lost_s += question.load_s + (0.0 if by_item else gap_s)
            self._calendar.at(now_s + gap_s + question.load_s, lambda at_s: self._idle(worker, at_s))
