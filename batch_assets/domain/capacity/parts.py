"""Our mode in the planner's terms: parts under an epoch.

What it does differently from the published modes:

- A part stands every `part_interval_s`. An interruption loses what came since the last part and at most the `window` in
  flight; what stood before is never done again.
- A worker that wakes from a stall finds its lease gone at its first write, writes nothing, and is idle at once.
- With `notice`, a reclaimed worker commits what is finished and gives its shard back at once. Stalls are unannounced.
- A fleet that sees a worker die ends its lease after `death_seen_s`, and does not wait until it runs out.

The rest is the published model (a shard that comes back goes to the end of the queue; a worker that finds nothing looks
again; records count when they are taken), so that modes are compared and not habits. `as_deployed` has the habits of
this system instead: the lowest-numbered shard first; a worker that finds nothing ends, and one that is started again
loads the model again; a record counts when its part stands.
"""

from __future__ import annotations

import heapq
import math

from batch_assets.domain.capacity.events import Calendar
from batch_assets.domain.capacity.question import Answer, Chance, Question, horizon_s


class PartsRun:
    """One run."""

    def __init__(self, question: Question, chance: Chance) -> None:
        self._question = question
        self._chance = chance
        self._calendar = Calendar()
        self._todo = question.shard_records()
        self._ready = [(shard, shard) for shard in range(len(self._todo))]  # (turn, shard); sorted, so a heap
        self._turns = len(self._todo)
        self._ended: list[int] = []  # workers that found nothing to claim
        self._missing = question.records
        self._lost_s = 0.0
        self._makespan_s = math.inf

    def run(self) -> Answer:
        """Return what it came to."""
        for worker in range(self._question.workers):
            self._start(worker, 0.0)
        self._calendar.run(horizon_s(self._question), self._look)
        return Answer(makespan_s=self._makespan_s, lost_gpu_s=self._lost_s, duplicate_rows=0)

    def _look(self, now_s: float) -> None:
        if not self._missing:
            self._makespan_s = min(self._makespan_s, now_s)

    def _start(self, worker: int, now_s: float) -> None:
        self._calendar.at(now_s + self._question.load_s, lambda at_s: self._idle(worker, at_s))

    def _idle(self, worker: int, now_s: float) -> None:
        if not self._ready:
            self._find_nothing(worker, now_s)
            return
        _, shard = heapq.heappop(self._ready)
        work_s = self._question.overhead_s + self._todo[shard] / self._question.rate
        gap_s = self._chance.until_interruption_s(worker, now_s)
        if gap_s < work_s:
            self._interrupt(worker, shard, gap_s, now_s + gap_s)
            return
        self._answer(shard, self._todo[shard], now_s + work_s)
        self._calendar.at(now_s + work_s, lambda at_s: self._idle(worker, at_s))

    def _find_nothing(self, worker: int, now_s: float) -> None:
        if self._question.as_deployed:
            self._ended.append(worker)
        elif self._missing:
            self._calendar.at(now_s + self._question.look_again_s, lambda at_s: self._idle(worker, at_s))

    def _answer(self, shard: int, records: int, stands_s: float) -> None:
        """Take records from a shard's work: now, because nobody else has the shard before it is given back."""
        self._todo[shard] -= records
        if self._question.as_deployed:
            self._calendar.at(stands_s, lambda at_s: self._count(records, at_s))
        else:
            self._missing -= records

    def _count(self, records: int, now_s: float) -> None:
        self._missing -= records
        self._look(now_s)

    def _interrupt(self, worker: int, shard: int, worked_s: float, at_s: float) -> None:
        question = self._question
        stalled = self._chance.is_stall(worker, at_s)
        noticed = question.notice and not stalled
        standing, unsaved_s = self._standing(shard, worked_s, noticed=noticed)
        self._answer(shard, standing, at_s)
        self._lost_s += unsaved_s
        away_s = 0.0 if noticed else self._noticed_after_s(stalled=stalled)
        self._calendar.at(at_s + away_s, lambda back_s: self._give_back(shard, back_s))
        if stalled:
            stall_s = question.lease_s + question.stall_extra_s
            self._lost_s += stall_s
            self._calendar.at(at_s + stall_s, lambda awake_s: self._idle(worker, awake_s))
        else:
            self._lost_s += question.load_s
            self._start(worker, at_s)

    def _noticed_after_s(self, *, stalled: bool) -> float:
        """Return the seconds until somebody may have a shard whose worker gave no notice."""
        lease_s = self._question.lease_s
        return lease_s if stalled else min(self._question.death_seen_s, lease_s)

    def _standing(self, shard: int, worked_s: float, *, noticed: bool) -> tuple[int, float]:
        """Return how many records stand after `worked_s` seconds on a shard, and the seconds of work that are lost."""
        question = self._question
        busy_s = max(0.0, worked_s - question.overhead_s)
        since_part_s = 0.0 if noticed else busy_s % question.part_interval_s
        records = min(self._todo[shard], math.floor((busy_s - since_part_s) * question.rate))
        return records, since_part_s + min(busy_s, question.window / question.rate)

    def _give_back(self, shard: int, now_s: float) -> None:
        self._turns += 1
        heapq.heappush(self._ready, (shard if self._question.as_deployed else self._turns, shard))
        if self._ended:
            self._lost_s += self._question.load_s
            self._start(self._ended.pop(), now_s)
