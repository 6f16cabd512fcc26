"""The planner's table: means over seeds, for each mode and shard size."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from batch_assets.domain.capacity.question import Answer, Chance, Mode, Question
from batch_assets.domain.capacity.recommend import Recommendation, candidates, recommend
from batch_assets.domain.capacity.run import simulate
from batch_assets.simulation.chance import PublishedChance, StreamedChance

Draws = Callable[[Question, int], Chance]
RECOMMEND_SEEDS_MIN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Means over seeds of one mode and shard size; hours. A run that would not end makes its makespan infinite."""

    mode: str
    shard_size: int
    makespan_h: float
    lost_gpu_h: float
    duplicate_rows: int

    def to_json(self) -> dict[str, str | int | float | None]:
        """Return plain JSON values; an infinite makespan is null."""
        return {**asdict(self), "makespan_h": self.makespan_h if math.isfinite(self.makespan_h) else None}


def draws(*, published: bool) -> Draws:
    """Return how interruptions are drawn from a seed."""
    return PublishedChance if published else StreamedChance


def answers(question: Question, seeds: int, chance: Draws) -> list[Answer]:
    """Play the seeds 0 to `seeds` - 1."""
    return [simulate(question, chance(question, seed)) for seed in range(seeds)]


def row(question: Question, seeds: int, chance: Draws) -> Row:
    """Return the means of one cell."""
    played = answers(question, seeds, chance)
    return Row(
        mode=question.mode.value,
        shard_size=question.shard_size,
        makespan_h=statistics.fmean(answer.makespan_s for answer in played) / 3600,
        lost_gpu_h=statistics.fmean(answer.lost_gpu_s for answer in played) / 3600,
        duplicate_rows=round(statistics.fmean(answer.duplicate_rows for answer in played)),
    )


def rows(question: Question, modes: Sequence[Mode], sizes: Sequence[int], seeds: int, chance: Draws) -> list[Row]:
    """Return the table: every mode at every shard size."""
    return [row(replace(question, mode=mode, shard_size=size), seeds, chance) for mode in modes for size in sizes]


def recommended(question: Question, seeds: int, chance: Draws) -> Recommendation:
    """Recommend a shard size for our mode under the question's interruptions, whatever its own size is."""
    asked = replace(question, mode=Mode.EPOCH_PARTS, as_deployed=True)
    sizes = candidates(asked.records, asked.workers)
    enough = max(seeds, RECOMMEND_SEEDS_MIN)
    return recommend({size: row(replace(asked, shard_size=size), enough, chance).makespan_h * 3600 for size in sizes})
