"""What will go wrong in a world, drawn from its seed.

Each world has its own mix: every kind of fault is in it or not, so that some worlds are hit by one thing often and
others by everything at once (a mix of all in every world would hide what one kind alone brings out).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a world's version is. `refused` are places in the snapshot whose text is empty."""

    records: int
    shard_size: int
    max_num_seqs: int
    refused: tuple[int, ...] = ()


SHAPES = (
    Shape(records=30, shard_size=30, max_num_seqs=4),
    Shape(records=44, shard_size=11, max_num_seqs=2, refused=(0, 12, 13)),
    Shape(records=60, shard_size=20, max_num_seqs=8, refused=(59,)),
    Shape(records=36, shard_size=6, max_num_seqs=4),
)


class Seam(StrEnum):
    """What can happen to one call of the store or the shard table."""

    DIE_BEFORE = "die before the call"
    DIE_AFTER = "die after its effect"
    FAIL_BEFORE = "no answer, no effect"
    FAIL_AFTER = "lost answer: effect, then an error"
    TWICE = "lost answer, then the same call again"
    STALL_BEFORE = "stall before the call"
    STALL_AFTER = "stall after its effect"
    SLOW = "a slow call"


class Poison(StrEnum):
    """What a record does to whoever asks it, every time (`flaky`: the first time)."""

    CRASH = "crash"
    INVALID = "invalid"
    REFUSE = "refuse"
    TRUNCATE = "truncate"
    ABORT = "abort"
    FLAKY = "flaky"
    HANG = "hang"
    KILL_WORKER = "kill_worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """Something that the world does at a moment. `slots` are the workers it hits; `what` is one of `STRIKES`."""

    at_s: float
    what: str
    slots: tuple[int, ...] = ()
    for_s: float = 0.0


STRIKES = ("kill", "stall", "notice", "wave", "store away", "table away", "cancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """One world's faults. Rates are per call (seams) and per step (`engine_dies`); nothing happens after `calm_s`."""

    seed: int
    shape: int
    workers: int
    calm_s: float
    part_records_max: int
    part_interval_s: float
    lease_ttl_s: float
    heartbeat_interval_s: float
    step_s: float
    load_s: float
    seams: tuple[tuple[Seam, float], ...]
    engine_dies: float
    replaces_stalled: bool
    strikes: tuple[Strike, ...]
    poison: tuple[tuple[int, Poison], ...]


ENGINE_STALL_S = 30.0  # after which the watchdog kills an engine that stands still
KILLERS = frozenset({Poison.CRASH, Poison.HANG, Poison.KILL_WORKER})
# Of worlds that have a kind of fault, where it is not a fifth: late writers come from stalls.
_SHARE = {Seam.STALL_BEFORE: 0.5, Seam.STALL_AFTER: 0.3}


def forecast(seed: int, shapes: Sequence[Shape]) -> Weather:
    """Draw a world over one of the shapes that there are."""
    random = Random(f"world {seed}")  # noqa: S311 - a simulation
    place = random.randrange(len(shapes))
    shape = shapes[place]
    workers = random.choice((1, 2, 3, 4))
    calm_s = random.choice((40.0, 120.0, 300.0))
    lease_ttl_s = random.choice((20.0, 40.0, 90.0))
    step_s, load_s = random.choice((0.5, 2.0, 4.0)), random.choice((1.0, 8.0))
    undisturbed_s = load_s + shape.records / shape.max_num_seqs / workers * step_s
    return Weather(
        seed=seed,
        shape=place,
        workers=workers,
        calm_s=calm_s,
        part_records_max=random.choice((1, 4, 9, 100)),
        part_interval_s=random.choice((2.0, 5.0)),
        lease_ttl_s=lease_ttl_s,
        heartbeat_interval_s=lease_ttl_s / random.choice((3, 4)),
        step_s=step_s,
        load_s=load_s,
        seams=_seams(random),
        engine_dies=random.choice((0.0, 0.0, 0.03)),
        replaces_stalled=random.random() < 0.5,  # noqa: PLR2004
        strikes=_strikes(random, workers, min(calm_s, 20.0 + 2 * undisturbed_s), lease_ttl_s),
        poison=_poison(random, [place for place in range(shape.records) if place not in shape.refused]),
    )


def _seams(random: Random) -> tuple[tuple[Seam, float], ...]:
    kinds = [seam for seam in Seam if random.random() < _SHARE.get(seam, 0.2)]
    return tuple((seam, random.choice((0.004, 0.02, 0.08))) for seam in kinds)


def _strikes(random: Random, workers: int, until_s: float, lease_ttl_s: float) -> tuple[Strike, ...]:
    kinds = [kind for kind in STRIKES if random.random() < (0.5 if kind in {"kill", "stall"} else 0.3)]
    found = []
    for kind in kinds:
        for _ in range(1 if kind == "cancel" else random.randint(1, 5)):
            everyone = list(range(workers))
            slots = random.sample(everyone, (workers + 1) // 2) if kind == "wave" else [random.choice(everyone)]
            for_s = random.choice((0.2, 0.8, 1.2, 4.0)) * lease_ttl_s
            found.append(Strike(at_s=random.uniform(0, until_s), what=kind, slots=tuple(slots), for_s=for_s))
    return tuple(sorted(found, key=lambda strike: strike.at_s))


def _poison(random: Random, places: list[int]) -> tuple[tuple[int, Poison], ...]:
    kinds = [kind for kind in Poison if random.random() < 0.2]  # noqa: PLR2004
    chosen = random.sample(places, min(len(places), sum(2 if kind in KILLERS else 3 for kind in kinds)))
    found = {}
    for kind in kinds:
        for _ in range(random.randint(1, 2 if kind in KILLERS else 3)):
            found[chosen.pop()] = kind
    return tuple(sorted(found.items()))
