"""One question, one run."""

from __future__ import annotations

from batch_assets.domain.capacity.parts import PartsRun
from batch_assets.domain.capacity.published import PublishedRun
from batch_assets.domain.capacity.question import Answer, Chance, Mode, Question


def simulate(question: Question, chance: Chance) -> Answer:
    """Play a run through."""
    run = PartsRun if question.mode is Mode.EPOCH_PARTS else PublishedRun
    return run(question, chance).run()
