"""A worker whose memory grows is replaced at a shard edge, and nothing is lost by it."""

from __future__ import annotations

from pathlib import Path

from batch_assets.domain.lease import ShardState
from tests.worker.harness import Bench, make_spec
from worker.loop import Exit


def make_bench(folder: Path) -> Bench:
    return Bench(folder, make_spec(folder, [f"message {n}" for n in range(150)], shard_size=30))


def test_a_worker_that_has_grown_finishes_its_shards_and_takes_no_more(tmp_path: Path) -> None:
    """Past the bound it claims nothing, finishes what it holds, and exits 75, so that the fleet starts another."""
    bench = make_bench(tmp_path)
    memory_mb = iter([100.0] * 2 + [900.0] * 1_000)
    worker, _ = bench.worker(memory_mb=lambda: next(memory_mb), memory_mb_max=500)
    assert worker.run() is Exit.INTERRUPTED
    rows = bench.table.shards(bench.version)
    done = [row.shard for row in rows if row.state is ShardState.DONE]
    assert 0 < len(done) < len(rows)
    assert {row.state for row in rows if row.shard not in done} == {ShardState.PENDING}
    assert bench.worker("w2")[0].run() is Exit.DONE
    assert len(bench.rows()) == 150
    assert {row["epoch"] for row in bench.rows()} == {1}


def test_a_bound_below_what_a_worker_needs_still_gets_the_work_done(tmp_path: Path) -> None:
    """Incident: a bound under the model's own size, and every worker left before it had done anything."""
    bench = make_bench(tmp_path)
    for number in range(5):
        worker, _ = bench.worker(f"w{number}", memory_mb=lambda: 900.0, memory_mb_max=500)
        assert worker.run() is Exit.INTERRUPTED
    assert len(bench.rows()) == 150
