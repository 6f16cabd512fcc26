"""The audit: it is clean when everything adds up, and names what does not."""

from __future__ import annotations

from pathlib import Path

from resources.results.audit import Audit, audit_version
from tests.worker.harness import Bench, make_spec
from worker.engine.fake import FakeFaults


def audit(bench: Bench) -> Audit:
    """Audit the bench's version."""
    registry = bench.platform.registry
    job = bench.spec.name
    return audit_version(
        bench.store,
        job,
        registry.plan(job, bench.version),
        registry.refused_key(job, bench.version),
        bench.table.shards(bench.version),
    )


def test_a_finished_version_adds_up(tmp_path: Path) -> None:
    """Records = results + dead letters of the workers + records refused at planning, none pending, none twice."""
    texts = [f"m {n}" for n in range(90)] + ["", "BREAKS"]
    bench = Bench(tmp_path, make_spec(tmp_path, texts))
    bench.worker(faults=FakeFaults(invalid="BREAKS"))[0].run()
    found = audit(bench)
    assert found.clean
    assert (found.records, found.results, found.dead_letters, found.pending) == (92, 90, 2, 0)


def test_an_unfinished_version_adds_up_with_what_is_pending(tmp_path: Path) -> None:
    """In the middle of a shard, the committed parts and the rest are the whole."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"m {n}" for n in range(60)], shard_size=60))
    worker, _ = bench.worker(part_records_max=8)
    lease = bench.table.claim(bench.version, "w1", ttl_s=600)
    assert lease is not None
    worker._open.append(worker._tools.open_shard(lease))
    for _ in range(4):
        worker._fill()
        worker._step()
    found = audit(bench)
    assert found.clean
    assert 0 < found.results < 60
    assert found.pending == 60 - found.results


def test_a_lost_object_is_named(tmp_path: Path) -> None:
    """A compact object that somebody deleted is a disagreement with its shard and key."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"m {n}" for n in range(60)]))
    bench.worker()[0].run()
    outcome = bench.table.shards(bench.version)[1].outcome
    assert outcome is not None
    bench.store.delete(outcome.result_key)
    found = audit(bench)
    assert not found.clean
    assert any("00001" in sentence and outcome.result_key in sentence for sentence in found.disagreements)


def test_a_changed_byte_is_named(tmp_path: Path) -> None:
    """Incident: a disk flipped a bit in a published object; it was still Parquet, and one summary was another."""
    bench = Bench(tmp_path, make_spec(tmp_path, [f"m {n}" for n in range(60)]))
    bench.worker()[0].run()
    outcome = bench.table.shards(bench.version)[0].outcome
    assert outcome is not None
    data = bytearray(bench.store.get(outcome.result_key))
    data[len(data) // 3] ^= 1
    bench.store.delete(outcome.result_key)
    bench.store.put_if_absent(outcome.result_key, bytes(data))
    found = audit(bench)
    assert any(outcome.result_key in sentence and "digest" in sentence for sentence in found.disagreements)
