"""Which shard size to choose for a rate of interruptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from batch_assets.domain.plan import SHARDS_MAX

SIZES = (500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000)
TOLERANCE = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A shard size and the sentence that says why."""

    shard_size: int
    reason: str


def candidates(records: int, workers: int) -> tuple[int, ...]:
    """Return the sizes worth a try: not more shards than a plan may have, not fewer than workers."""
    sizes = [size for size in SIZES if size * SHARDS_MAX >= records and size * workers <= records]
    return tuple(sizes) or (max(1, -(-records // max(1, workers))),)


def recommend(makespan_s: Mapping[int, float]) -> Recommendation:
    """Choose from mean makespans by shard size: the largest that is within `TOLERANCE` of the shortest.

    The largest, because each shard costs a partition, a claim and two objects, and saves nothing where interruptions
    lose seconds whatever the size.
    """
    best_s = min(makespan_s.values())
    good = [size for size, value_s in makespan_s.items() if value_s <= best_s * (1 + TOLERANCE)]
    chosen = max(good)
    fastest = min(makespan_s, key=lambda size: makespan_s[size])
    return Recommendation(
        shard_size=chosen,
        reason=(
            f"{chosen:,} records a shard: the largest of {', '.join(f'{size:,}' for size in sorted(makespan_s))} that "
            f"takes at most {TOLERANCE:.0%} longer than the fastest ({fastest:,}, {best_s / 3600:.2f} h)"
        ),
    )
