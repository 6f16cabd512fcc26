"""The planner's chance: the published draws, and our own, which strike every mode and shard size alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from batch_assets.domain.capacity.question import Question


class PublishedChance:
    """Python's generator with the seed as it is; a run draws in the order in which it asks."""

    def __init__(self, question: Question, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - a simulation
        self._question = question

    def until_interruption_s(self, _worker: int, _now_s: float) -> float:
        """Draw the time to the next interruption."""
        return self._random.expovariate(1 / self._question.mtbi_s)

    def is_stall(self, _worker: int, _at_s: float) -> bool:
        """Draw whether it is a stall."""
        return self._random.random() < self._question.stall_share


class _Strikes:
    """The moments at which one worker is interrupted, in order, and which are stalls."""

    def __init__(self, source: Iterator[tuple[float, bool]]) -> None:
        self._source = source
        self._next = next(source)

    def after(self, now_s: float) -> float:
        """Return the first moment after `now_s`."""
        while self._next[0] <= now_s:
            self._next = next(self._source)
        return self._next[0]

    @property
    def is_stall(self) -> bool:
        """Whether the moment last returned is a stall."""
        return self._next[1]


class StreamedChance:
    """One stream of interruptions a worker, drawn ahead: two runs with the same seed meet the same ones.

    Comparing modes or shard sizes then compares them, not their luck. What strikes a worker that is loading, waiting or
    standing still changes nothing, as in the published model. With `waves`, half of the workers are struck at once, so
    often that each is struck every `mtbi_s` on average.
    """

    def __init__(self, question: Question, seed: int) -> None:
        workers = range(question.workers)
        if question.waves:
            copies = itertools.tee(_waves(question, seed), question.workers)
            streams = [_of_worker(copy, worker) for worker, copy in zip(workers, copies, strict=True)]
        else:
            streams = [_alone(question, f"{seed}/{worker}") for worker in workers]
        self._strikes = [_Strikes(stream) for stream in streams]

    def until_interruption_s(self, worker: int, now_s: float) -> float:
        """Return the time to the worker's next interruption."""
        return self._strikes[worker].after(now_s) - now_s

    def is_stall(self, worker: int, _at_s: float) -> bool:
        """Say whether the interruption that was returned last is a stall."""
        return self._strikes[worker].is_stall


def _alone(question: Question, seed: str) -> Iterator[tuple[float, bool]]:
    random = Random(seed)  # noqa: S311 - a simulation
    moment_s = 0.0
    while True:
        moment_s += random.expovariate(1 / question.mtbi_s)
        yield moment_s, random.random() < question.stall_share


Wave = tuple[float, dict[int, bool]]


def _waves(question: Question, seed: int) -> Iterator[Wave]:
    """Yield the moment of each wave, and the workers it strikes with whether they stall."""
    random = Random(f"{seed}/waves")  # noqa: S311 - a simulation
    half = (question.workers + 1) // 2
    moment_s = 0.0
    while True:
        moment_s += random.expovariate(question.workers / (half * question.mtbi_s))
        struck = random.sample(range(question.workers), half)
        yield moment_s, {worker: random.random() < question.stall_share for worker in struck}


def _of_worker(waves: Iterator[Wave], worker: int) -> Iterator[tuple[float, bool]]:
    return ((moment_s, struck[worker]) for moment_s, struck in waves if worker in struck)
