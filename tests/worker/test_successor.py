"""Workers that die whole: the successor finds the record that kills them, and charges nobody else (I4, I8)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worker.harness import Bench, make_spec
from worker.engine.fake import FakeFaults
from worker.loop import Exit

POISON = "POISON"
DEATHS_BORNE = 400


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the worker may run after it."""


def work_until_done(bench: Bench, monkeypatch: pytest.MonkeyPatch, faults: FakeFaults, **options: int) -> int:
    """Start workers one after another until one finds the work done; return how many died."""

    def kill(_pid: int, _signum: int) -> None:
        raise Killed

    monkeypatch.setattr("worker.engine.fake.os.kill", kill)
    for deaths in range(DEATHS_BORNE):
        worker, _ = bench.worker(f"w{deaths}", faults=faults, **options)
        monkeypatch.setattr(worker, "_give_up", lambda: None)
        try:
            assert worker.run() is Exit.DONE
        except Killed:
            bench.table.expire(bench.version, f"w{deaths}")
        else:
            return deaths
    raise AssertionError(f"{DEATHS_BORNE} workers died")


@pytest.mark.parametrize("place", [0, 7, 150, 299])
def test_a_record_that_kills_the_worker_is_found_by_its_successors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Incident: one record took the whole process down, every worker in turn, all night."""
    texts = [f"message {n}" for n in range(300)]
    texts[place] = POISON
    bench = Bench(tmp_path, make_spec(tmp_path, texts, shard_size=300, max_num_seqs=32))
    deaths = work_until_done(bench, monkeypatch, FakeFaults(kill_worker=POISON))
    (letter,) = bench.letters()
    own = letter["attempts"] - letter["infrastructure_losses"]
    assert (letter["record_id"], letter["failure"], own) == (f"r{place:05d}", "engine_crash", 3)
    assert len(bench.rows()) == 299
    assert deaths <= math.ceil(math.log2(32 * 1.25)) + 3


def test_a_worker_that_was_merely_killed_costs_nobody_a_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spot machine that vanishes makes suspects, and all of them are cleared; then the shard goes on as before."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"message {n}" for n in range(200)], shard_size=200))
    worker, _ = bench.worker("w0")
    monkeypatch.setattr(worker, "_give_up", lambda: None)
    step = worker._step
    steps = iter(range(100))

    def step_then_die() -> None:
        if next(steps) == 9:
            raise Killed
        step()

    monkeypatch.setattr(worker, "_step", step_then_die)
    with pytest.raises(Killed):
        worker.run()
    bench.table.expire(bench.version, "w0")
    assert bench.worker("w1")[0].run() is Exit.DONE
    assert len(bench.rows()) == 200
    assert {row["attempts"] for row in bench.rows()} == {1}
    assert [row.unclean_ends for row in bench.table.shards(bench.version)] == [0]


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(killers=st.sets(st.integers(0, 59), max_size=4), crashers=st.sets(st.integers(0, 59), max_size=3))
def test_any_killers_are_found_and_nobody_else_is_charged(
    tmp_path_factory: pytest.TempPathFactory, killers: set[int], crashers: set[int]
) -> None:
    """Records that kill workers and records that kill engines, mixed over shards: exactly they are dead letters."""
    folder = tmp_path_factory.mktemp("killers")
    marks = dict.fromkeys(killers, "KILLER") | dict.fromkeys(crashers, "CRASHER")
    texts = [f"{marks.get(n, 'message')} {n}" for n in range(60)]
    bench = Bench(folder, make_spec(folder, texts, shard_size=25))
    with pytest.MonkeyPatch.context() as patch:
        work_until_done(bench, patch, FakeFaults(kill_worker="KILLER", crash="CRASHER"))
    assert {letter["record_id"] for letter in bench.letters()} == {f"r{n:05d}" for n in marks}
    assert {letter["failure"] for letter in bench.letters()} <= {"engine_crash"}
    rows = bench.rows()
    assert {row["record_id"] for row in rows} == {f"r{n:05d}" for n in range(60) if n not in marks}
    assert {row["attempts"] - row["infrastructure_losses"] for row in rows} <= {1}


def test_a_drain_among_suspects_does_not_start_the_search_anew(tmp_path: Path) -> None:
    """A spot notice between two deaths: the release keeps the count of unclean ends, as suspects are unanswered."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"message {n}" for n in range(100)], shard_size=100))
    for name in ("a", "b"):
        bench.table.claim(bench.version, name, ttl_s=600)
        bench.table.expire(bench.version, name)
    worker, stop = bench.worker("c")
    worker._claim()
    worker._fill()
    stop.request("test")
    assert worker.run() is Exit.INTERRUPTED
    lease = bench.table.claim(bench.version, "d", ttl_s=600)
    assert lease is not None
    assert lease.unclean_ends == 2
