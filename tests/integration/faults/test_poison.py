"""Records that crash the engine, hang it, or kill the whole worker, each time they are asked, among good ones."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest

from tests.integration.faults.ending import conclude
from tests.integration.faults.hands import last_words
from tests.integration.faults.scene import Scene, messages
from tests.integration.faults.stacks import MOSTLY_EMBEDDED, Stack

POISON = "POISON"


def with_poison(count: int, places: Collection[int]) -> list[str]:
    """Return messages, of which some are poison."""
    return [f"{POISON} {number}" if number in places else text for number, text in enumerate(messages(count))]


def engine_starts_max(scene: Scene, poison: int) -> int:
    """Return how many engines one worker may need: the first; log2 of the window and three deaths alone a poison."""
    return 1 + poison * (math.ceil(math.log2(scene.window)) + 3)


def dead(places: Collection[int], failure: str = "engine_crash") -> dict[str, str]:
    """Return the dead letters that must be."""
    return {f"r{place:05d}": failure for place in places}


@pytest.mark.parametrize("places", [{137}, {0, 1, 2, 40, 77, 150, 200, 201, 298, 299}], ids=["one", "ten"])
def test_records_that_crash_the_engine(stack: Stack, places: set[int]) -> None:
    """A record that kills the engine every time stands among 300: it is found, buried, and its neighbours finish."""
    with Scene(stack, with_poison(300 + len(places), places), max_num_seqs=32) as scene:
        worker = scene.worker("worker", {"crash": POISON})
        assert worker.wait() == 0, worker.log
        assert worker.log.count("engine starting") <= engine_starts_max(scene, len(places))
        conclude(scene, exits={"worker": 0}, dead=dead(places), recomputed_max=3 * scene.window * len(places))


@MOSTLY_EMBEDDED
def test_a_record_that_hangs_the_engine(stack: Stack) -> None:
    """The engine stands still without dying: the watchdog ends it, and the record is found like one that crashes."""
    with Scene(stack, with_poison(100, {61}), max_num_seqs=2) as scene:
        worker = scene.worker("worker", {"hang": POISON}, engine_stall_s=0.4)
        assert worker.wait() == 0, worker.log
        assert "stood still" in worker.log
        assert worker.log.count("engine starting") <= engine_starts_max(scene, 1)
        conclude(scene, exits={"worker": 0}, dead=dead({61}), recomputed_max=4 * scene.window)


@MOSTLY_EMBEDDED
def test_a_record_that_kills_the_whole_worker(stack: Stack) -> None:
    """Worker after worker dies of the same record, and none can say so: those who come next find it all the same."""
    with Scene(stack, with_poison(60, {7}), max_num_seqs=2) as scene:
        run = scene.run("run", {"kill_worker": POISON})
        assert run.wait() == 0, run.log
        assert last_words(scene.log_dir)[-1] == 0
        killed = last_words(scene.log_dir)[:-1]
        assert set(killed) == {None}
        assert len(killed) <= math.ceil(math.log2(scene.window)) + 3 + 1
        conclude(scene, exits={"run": 0}, dead=dead({7}), recomputed_max=scene.loss_max)
