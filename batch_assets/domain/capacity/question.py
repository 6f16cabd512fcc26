"""What a planner asks: so many records, workers and interruptions; how long, how much lost, at which shard size?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from batch_assets.domain.errors import UserError


class Mode(StrEnum):
    """How workers write what they made, and what an interruption leaves."""

    SHARD_APPEND = "shard-append"  # a shard's rows at its end, without a key: a late writer doubles them
    SHARD_KEYED = "shard-keyed"  # the same with a key: a late writer overwrites
    ITEM_KEYED = "item-keyed"  # each record as it is made, with a key
    EPOCH_PARTS = "epoch-parts"  # ours: parts every few seconds under an epoch that fences late writers


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One simulated run. Times are seconds, `rate` is records a second of one worker.

    `mtbi_s` is a worker's mean time to the next interruption, `stall_share` of which are stalls: the worker stands
    still for `lease_s` + `stall_extra_s` and then goes on. `waves` takes half of the workers at once, not one at a
    time. `part_interval_s`, `window` (records in flight), `notice`, `as_deployed` and `death_seen_s` are only asked of
    our mode (parts.py says what they do).
    """

    mode: Mode
    shard_size: int
    records: int = 2_000_000
    workers: int = 20
    rate: float = 18.7
    mtbi_s: float = 3_600.0
    stall_share: float = 0.2
    load_s: float = 180.0
    lease_s: float = 600.0
    overhead_s: float = 3.0
    stall_extra_s: float = 300.0
    look_again_s: float = 30.0
    part_interval_s: float = 5.0
    window: int = 40
    notice: bool = False
    waves: bool = False
    as_deployed: bool = False
    death_seen_s: float = 10.0

    def __post_init__(self) -> None:
        """Refuse numbers with which a run would never end or mean nothing."""
        for name in ("shard_size", "records", "workers", "rate", "mtbi_s", "look_again_s", "part_interval_s"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} must be more than 0, is {getattr(self, name)}")
        for name in ("load_s", "lease_s", "overhead_s", "stall_extra_s", "window", "death_seen_s"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} must not be negative, is {getattr(self, name)}")
        if not 0 <= self.stall_share <= 1:
            raise UserError(f"stall_share must be in [0, 1], is {self.stall_share}")

    def shard_records(self) -> list[int]:
        """Return each shard's records; only the last may have fewer."""
        full, rest = divmod(self.records, self.shard_size)
        return [self.shard_size] * full + ([rest] if rest else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one run came to; `makespan_s` is infinite if it would not end.

    `duplicate_rows` are rows written minus records, `lost_gpu_s` the time of idle GPUs and of work that was done again.
    """

    makespan_s: float
    lost_gpu_s: float
    duplicate_rows: int


HORIZON = 20  # times the undisturbed time: what is not done by then will not be


def horizon_s(question: Question) -> float:
    """Return when a run is given up."""
    sizes = question.shard_records()
    undisturbed_s = (
        len(sizes) / question.workers * question.overhead_s
        + (question.records / question.workers + sizes[0]) / question.rate
    )
    return HORIZON * (question.load_s + question.lease_s + question.stall_extra_s + undisturbed_s)


class Chance(Protocol):
    """When workers are interrupted. Seeded and handed in: the domain draws nothing of its own."""

    def until_interruption_s(self, worker: int, now_s: float) -> float:
        """Return the seconds from `now_s` to the worker's next interruption; asked whenever it takes a shard."""
        ...

    def is_stall(self, worker: int, at_s: float) -> bool:
        """Say whether the interruption at `at_s` is a stall; asked once for each interruption that strikes work."""
        ...
