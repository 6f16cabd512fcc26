"""The watchdog: an engine that stands still with work in flight is killed, and nothing else is."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from batch_assets.domain.errors import EngineDead
from batch_assets.domain.ports import EngineRequest
from tests.worker.harness import Bench, HandClock, make_spec
from worker.engine.fake import FakeEngine, FakeFaults
from worker.keeper import Pulse
from worker.loop import Exit
from worker.watchdog import Watchdog

STALL_S = 60.0


class Scene:
    """A watchdog over an engine of the test's own, on a clock of its own."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.engine = FakeEngine({}, seqs_per_step=1, faults=FakeFaults(), text_of=lambda _: "")
        self.pulse = Pulse(engine=self.engine, in_flight=3, steps=0, in_step=True)
        self.watchdog = Watchdog(lambda: self.pulse, clock=self.clock, stall_s=STALL_S)
        self.watchdog.look()

    def after(self, seconds: float) -> bool:
        """Let time pass, look ten times meanwhile, and say whether the engine was killed."""
        for _ in range(10):
            self.clock.now_s += seconds / 10
            self.watchdog.look()
        return self.engine._killed.is_set()

    def answer(self) -> None:
        """Let a token move."""
        self.engine.submit(EngineRequest(request_id="0", prompt_token_ids=[1], max_tokens=1))
        self.engine.step()


def test_an_engine_without_a_token_is_killed_after_the_bound() -> None:
    """Not before it."""
    scene = Scene()
    assert not scene.after(STALL_S - 1)
    assert scene.after(1.1)
    with pytest.raises(EngineDead, match="stood still: no token for 60 s, 3 in flight"):
        scene.engine.step()


def test_a_token_starts_the_time_anew() -> None:
    """A slow engine lives as long as it moves."""
    scene = Scene()
    for _ in range(5):
        assert not scene.after(STALL_S - 1)
        scene.answer()
        assert not scene.after(0)


def test_steps_without_tokens_are_no_life() -> None:
    """An engine that returns from each step with nothing is as stuck as one that never returns."""
    scene = Scene()
    for number in range(5):
        scene.clock.now_s += STALL_S / 6
        scene.pulse = replace(scene.pulse, steps=number + 1, in_step=number % 2 == 0)
        scene.watchdog.look()
        assert not scene.engine._killed.is_set()
    scene.pulse = replace(scene.pulse, steps=9)
    assert scene.after(STALL_S / 6 + 1)


def test_an_idle_engine_and_a_worker_that_is_busy_elsewhere_are_left_alone() -> None:
    """Nobody takes in tokens while a database is away for longer than the bound."""
    scene = Scene()
    scene.pulse = replace(scene.pulse, in_flight=0)
    assert not scene.after(10 * STALL_S)
    scene.pulse = replace(scene.pulse, in_flight=3, in_step=False)
    assert not scene.after(10 * STALL_S)
    assert not scene.after(10 * STALL_S)
    scene.pulse = replace(scene.pulse, in_step=True)
    assert not scene.after(STALL_S - 1)


def test_a_worker_that_was_frozen_does_not_blame_its_engine() -> None:
    """Incident: SIGSTOP and SIGCONT; an hour had passed on the clock, and the engine had never been asked."""
    scene = Scene()
    scene.clock.now_s += 3_600
    scene.watchdog.look()
    assert not scene.after(STALL_S / 2)
    assert scene.after(STALL_S / 2 + 1)


def test_a_record_that_hangs_the_engine_is_found_like_one_that_kills_it(tmp_path: Path) -> None:
    """Incident: one prompt sent an engine into an endless loop, and the worker waited for it all night."""
    texts = [f"message {n}" for n in range(60)]
    texts[33] = "one that HANGS"
    bench = Bench(tmp_path, make_spec(tmp_path, texts, shard_size=60))
    worker, _ = bench.worker(faults=FakeFaults(hang="HANGS"))
    done = threading.Event()

    def kill_what_stands_still() -> None:
        while not done.is_set():
            for engine in bench.engines:
                if engine._standing.wait(0.01):
                    engine.kill("test")

    watcher = threading.Thread(target=kill_what_stands_still)
    watcher.start()
    try:
        assert worker.run() is Exit.DONE
    finally:
        done.set()
        watcher.join()
    (letter,) = bench.letters()
    assert (letter["record_id"], letter["failure"], letter["attempts"] - letter["infrastructure_losses"]) == (
        "r00033",
        "engine_crash",
        3,
    )
    assert len(bench.rows()) == 59
