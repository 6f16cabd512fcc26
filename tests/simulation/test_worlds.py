"""Seeded worlds of production workers: whatever dies, stalls, races or lies, the invariants hold at each event.

`pytest tests/simulation --world-seed N` plays one world and prints its trace.
"""

from __future__ import annotations

from collections import Counter

import pytest

from batch_assets.simulation.world.world import Verdict
from tests.simulation.conftest import Play

IN_A_TEST = 25
EVERY_TIME = 250
SLOW = 325


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of every 25 worlds, or of the one that was asked for."""
    if "first" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("--world-seed", default=None)
    low, high = (EVERY_TIME, SLOW) if metafunc.function.__name__.endswith("_thousands") else (0, EVERY_TIME)
    metafunc.parametrize("first", [asked] if asked is not None else list(range(low, high, IN_A_TEST)))


def test_worlds(play: Play, first: int, request: pytest.FixtureRequest) -> None:
    """I1, I4, I6, I7, I8 and I10 hold at every event of these worlds, each world finishes, and nothing surprises."""
    check(play, first, request)


@pytest.mark.slow
def test_thousands(play: Play, first: int, request: pytest.FixtureRequest) -> None:
    """The same over more seeds than a change can wait for."""
    check(play, first, request)


def check(play: Play, first: int, request: pytest.FixtureRequest) -> None:
    alone = request.config.getoption("--world-seed", default=None) is not None
    for seed in [first] if alone else range(first, first + IN_A_TEST):
        verdict = play(seed)
        if alone:
            print(verdict.tell(lines=100_000))  # noqa: T201 - what was asked for
        assert verdict.broken is None, verdict.tell()


def test_a_seed_always_plays_the_same_world(play: Play) -> None:
    """Whoever sees a world break can see it break again: twice the same seed is the same trace, to the last event."""
    for seed in (3, 4):
        once, again = play(seed), play(seed)
        assert once.trace == again.trace
        assert once.seconds == again.seconds


def test_worlds_meet_what_they_are_for(play: Play) -> None:
    """A simulation in which nothing goes wrong proves nothing: some worlds must have each of these."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        seen.update(what_happened(play(seed)))
    wanted = {
        "killed",
        "exit 0",
        "exit 1",
        "exit 75",
        "late part",
        "taken over with parts",
        "renew refused",
        "engine died",
        "dead letter",
        "charged",
        "lost answer",
        "stall",
        "wave",
        "cancel",
        "store away",
        "table away",
    }
    assert wanted - set(seen) == set(), seen


def what_happened(verdict: Verdict) -> set[str]:
    """Return which of the interesting things a world's trace shows."""
    marks = {
        "killed": "how=killed",
        "exit 0": "how=exit 0",
        "exit 1": "how=exit 1",
        "exit 75": "how=exit 75",
        "taken over with parts": "accepted=epoch=",
        "renew refused": "call=renew",
        "engine died": "EngineDied",
        "dead letter": "dead=True",
        "charged": "Charged",
        "lost answer": "what=lost answer",
        "stall": "what=stall",
        "wave": "what=wave",
        "cancel": "what=cancel",
        "store away": "what=store away",
        "table away": "what=table away",
    }
    found = {name for name, mark in marks.items() if any(mark in line for line in verdict.trace)}
    return found | ({"late part"} if verdict.late_parts else set())
