"""The worker's loop: what it does with records, engines, leases and stops."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batch_assets.domain.errors import EngineUnusable
from batch_assets.domain.lease import ShardState
from batch_assets.domain.ports import EngineOutput
from batch_assets.domain.spec import DecodingSpec
from tests.worker.harness import Bench, HandClock, make_spec
from worker.engine.fake import FakeEngine, FakeFaults
from worker.loop import Exit

POISON = "POISON"


def test_every_record_is_answered_once(tmp_path: Path) -> None:
    """The line holds end to end: each record of three shards has exactly one row, with its provenance (I1, I10)."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"message {n}" for n in range(120)]))
    worker, _ = bench.worker()
    assert worker.run() is Exit.DONE
    rows = bench.rows()
    assert sorted(row["record_id"] for row in rows) == [f"r{n:05d}" for n in range(120)]
    assert {row["job_version"] for row in rows} == {bench.version}
    assert {row["attempts"] for row in rows} == {1}
    assert all(len(row["output_sha256"]) == 64 and row["worker"] == "w1" and row["epoch"] == 1 for row in rows)
    assert all(row.state is ShardState.DONE for row in bench.table.shards(bench.version))


def test_a_worker_with_nothing_to_claim_builds_no_engine(tmp_path: Path) -> None:
    """A worker that comes late costs no model load."""
    bench = Bench(tmp_path, make_spec(tmp_path, ["one", "two"]))
    assert bench.worker()[0].run() is Exit.DONE
    assert bench.worker("w2")[0].run() is Exit.DONE
    assert len(bench.engines) == 1


def test_an_answer_that_is_never_valid_is_a_dead_letter_with_what_was_said(tmp_path: Path) -> None:
    """Three invalid answers bury a record with class, reason and the model's words; its neighbours finish (I4)."""
    texts = [f"message {n}" for n in range(20)]
    texts[7] = "this one BREAKS"
    bench = Bench(tmp_path, make_spec(tmp_path, texts))
    assert bench.worker(faults=FakeFaults(invalid="BREAKS"))[0].run() is Exit.DONE
    assert len(bench.rows()) == 19
    (letter,) = bench.letters()
    assert (letter["record_id"], letter["failure"], letter["attempts"]) == ("r00007", "invalid_output", 3)
    assert b"not the JSON" in letter["output"]
    assert letter["object_row"] == 7


def test_a_cut_off_answer_is_buried_at_once_without_a_larger_limit(tmp_path: Path) -> None:
    """At the same limit the model would say the same: truncated is not retried."""
    bench = Bench(tmp_path, make_spec(tmp_path, ["short", "a LONG one"]))
    assert bench.worker(faults=FakeFaults(truncate="LONG"))[0].run() is Exit.DONE
    (letter,) = bench.letters()
    assert (letter["failure"], letter["attempts"], letter["finish_reason"]) == ("truncated", 1, "length")


def test_a_cut_off_answer_is_asked_again_under_the_larger_limit(tmp_path: Path) -> None:
    """With `max_tokens_retry`, one more try is made under that limit."""
    spec = make_spec(tmp_path, ["a LONG one"], decoding=DecodingSpec(max_tokens=100, max_tokens_retry=200))
    bench = Bench(tmp_path, spec)
    assert bench.worker(faults=FakeFaults(truncate="LONG"))[0].run() is Exit.DONE
    (letter,) = bench.letters()
    assert (letter["failure"], letter["attempts"]) == ("truncated", 2)


def test_a_refused_record_is_buried_at_once(tmp_path: Path) -> None:
    """What the engine refuses before running it is never retried."""
    bench = Bench(tmp_path, make_spec(tmp_path, ["good", "a BAD one"]))
    assert bench.worker(faults=FakeFaults(refuse="BAD"))[0].run() is Exit.DONE
    (letter,) = bench.letters()
    assert (letter["failure"], letter["attempts"]) == ("refused", 1)


def test_an_aborted_request_is_retried_then_buried(tmp_path: Path) -> None:
    """An engine that gives a request up counts as a transient failure, three times."""
    bench = Bench(tmp_path, make_spec(tmp_path, ["good", "GIVEUP"]))
    assert bench.worker(faults=FakeFaults(abort="GIVEUP"))[0].run() is Exit.DONE
    (letter,) = bench.letters()
    assert (letter["failure"], letter["attempts"]) == ("transient", 3)


@pytest.mark.parametrize("place", [0, 7, 150, 299])
def test_a_poison_record_dies_alone(tmp_path: Path, place: int) -> None:
    """A record that kills the engine each time ends as `engine_crash`; 299 neighbours finish, few engines are spent."""
    texts = [f"message {n}" for n in range(300)]
    texts[place] = POISON
    bench = Bench(tmp_path, make_spec(tmp_path, texts, max_num_seqs=32))
    assert bench.worker(faults=FakeFaults(crash=POISON))[0].run() is Exit.DONE
    assert len(bench.rows()) == 299
    (letter,) = bench.letters()
    own = letter["attempts"] - letter["infrastructure_losses"]
    assert (letter["record_id"], letter["failure"], own) == (f"r{place:05d}", "engine_crash", 3)
    assert len(bench.engines) <= 1 + 6 + 3  # one, log2 of the 40 in flight, three deaths alone


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.sets(st.integers(0, 59), min_size=0, max_size=6))
def test_any_poison_records_are_found_and_nobody_else_is_charged(
    tmp_path_factory: pytest.TempPathFactory, places: set[int]
) -> None:
    """Whichever records are poison, exactly they are dead letters and everybody else has a result."""
    folder = tmp_path_factory.mktemp("poison")
    texts = [POISON if n in places else f"message {n}" for n in range(60)]
    texts = [f"{text} {n}" for n, text in enumerate(texts)]
    bench = Bench(folder, make_spec(folder, texts, shard_size=25))
    assert bench.worker(faults=FakeFaults(crash=POISON))[0].run() is Exit.DONE
    assert {letter["record_id"] for letter in bench.letters()} == {f"r{n:05d}" for n in places}
    assert {row["record_id"] for row in bench.rows()} == {f"r{n:05d}" for n in range(60) if n not in places}
    assert {row["attempts"] - row["infrastructure_losses"] for row in bench.rows()} <= {1}


def test_an_engine_that_always_dies_ends_the_worker_for_good(tmp_path: Path) -> None:
    """When every record kills the engine, the bound on deaths without an answer ends the worker with the reason."""
    bench = Bench(tmp_path, make_spec(tmp_path, [POISON] * 30))
    worker, _ = bench.worker(faults=FakeFaults(crash=POISON), restarts_max=4)
    with pytest.raises(EngineUnusable, match="died 5 times"):
        worker.run()


def test_a_stop_commits_what_is_finished_and_releases_at_once(tmp_path: Path) -> None:
    """After a drain the shard is claimable now, and the next worker redoes no committed record (I5, I8)."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"message {n}" for n in range(100)], shard_size=100))
    worker, stop = bench.worker(part_records_max=1_000)
    seen = 0
    original = bench.engine_factory

    def stopping_factory(faults: FakeFaults):
        build = original(faults)

        def build_and_stop():
            engine = build()
            step = engine.step

            def stepped():
                nonlocal seen
                seen += 1
                if seen == 5:
                    stop.request("test")
                return step()

            engine.step = stepped  # type: ignore[method-assign]
            return engine

        return build_and_stop

    bench.engine_factory = stopping_factory  # type: ignore[method-assign]
    worker, stop = bench.worker(part_records_max=1_000)
    assert worker.run() is Exit.INTERRUPTED
    (row,) = bench.table.shards(bench.version)
    assert row.state is ShardState.PENDING
    committed = row.results
    assert 0 < committed < 100
    bench.engine_factory = original  # type: ignore[method-assign]
    assert bench.worker("w2")[0].run() is Exit.DONE
    rows = bench.rows()
    assert len(rows) == 100
    assert sum(row["epoch"] == 1 for row in rows) == committed
    assert {row["worker"] for row in rows if row["epoch"] == 2} == {"w2"}


def test_a_worker_that_lost_its_lease_writes_nothing_that_counts(tmp_path: Path) -> None:
    """While a worker is paused its lease expires and another finishes; what the first wrote late is not seen (I7)."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"message {n}" for n in range(40)], shard_size=40))
    worker, _ = bench.worker("slow")
    lease = bench.table.claim(bench.version, "slow", ttl_s=600)
    assert lease is not None
    shard = worker._tools.open_shard(lease)
    worker._open.append(shard)
    worker._fill()
    worker._step()
    bench.clock.now_s += 601  # the lease runs out while the worker stands still
    assert bench.worker("quick")[0].run() is Exit.DONE
    assert worker.run() is Exit.DONE
    rows = bench.rows()
    assert {row["worker"] for row in rows} == {"quick"}
    assert len(rows) == 40
    assert shard.lost


def test_a_cancelled_version_keeps_what_was_committed(tmp_path: Path) -> None:
    """At its next renewal a worker learns of the cancel, commits what is finished and gives the shard back."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"message {n}" for n in range(60)], shard_size=60))
    worker, _ = bench.worker()
    lease = bench.table.claim(bench.version, "w1", ttl_s=600)
    assert lease is not None
    worker._open.append(worker._tools.open_shard(lease))
    worker._fill()
    worker._step()
    bench.table.cancel(bench.version)
    assert worker.run() is Exit.DONE
    (row,) = bench.table.shards(bench.version)
    assert row.state is ShardState.CANCELLED
    assert 0 < row.results < 60
    bench.table.resume(bench.version)
    assert bench.worker("w2")[0].run() is Exit.DONE
    assert len(bench.rows()) == 60


def test_parts_are_committed_by_age_as_well_as_by_number(tmp_path: Path) -> None:
    """With few records, a part is written when its oldest record has waited for the interval, not only at the end."""
    clock = HandClock(tick_s=1.0)
    bench = Bench(tmp_path, make_spec(tmp_path, [f"m {n}" for n in range(80)], shard_size=80, max_num_seqs=2), clock)
    assert bench.worker(part_records_max=10_000)[0].run() is Exit.DONE
    parts = [item.key for item in bench.store.list(f"staging/tickets/{bench.version}") if "part-" in item.key]
    assert len(parts) > 3


def test_the_checksum_is_of_what_the_model_said(tmp_path: Path) -> None:
    """`output_sha256` lets anyone prove later which text a row came from."""
    bench = Bench(tmp_path, make_spec(tmp_path, ["one message"]))
    worker, _ = bench.worker()
    assert worker.run() is Exit.DONE
    (row,) = bench.rows()
    said = bench.engines[0]._answers.make(
        worker._tools.open_shard.__self__._renderer.render([{"text": "one message"}])[0]
    )
    assert row["output_sha256"] == hashlib.sha256(said.encode()).hexdigest()


def test_specs_that_differ_in_the_engine_never_share_a_version(tmp_path: Path) -> None:
    """A fake row can never pass for a real one: the engine is in the recipe (I2)."""
    spec = make_spec(tmp_path, ["one"])
    assert spec.recipe_digest != replace(spec, model=replace(spec.model, engine="vllm")).recipe_digest


def test_a_drain_begins_no_step_that_would_end_after_the_budget(tmp_path: Path) -> None:
    """Incident: steps of several seconds, and a worker that was killed in the middle of its last commit."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"message {n}" for n in range(100)], shard_size=100))
    worker, stop = bench.worker()
    step = FakeEngine.step
    ended_s: list[float] = []

    def long_step(engine: FakeEngine) -> list[EngineOutput]:
        bench.clock.now_s += 4.0
        engine._seqs_per_step = 1
        outputs = step(engine)
        ended_s.append(bench.clock.now_s)
        if len(ended_s) == 3:
            stop.request("test")
        return outputs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeEngine, "step", long_step)
        assert worker.run() is Exit.INTERRUPTED
    assert [round(at_s - ended_s[2], 1) for at_s in ended_s[3:]] == [4.0]
