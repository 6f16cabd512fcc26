"""What an engine's death must not cost."""

from __future__ import annotations

from pathlib import Path

from tests.worker.harness import Bench, make_spec
from worker.engine.fake import FakeFaults


def test_finished_records_are_committed_before_a_new_engine_is_built(tmp_path: Path) -> None:
    """A real model loads for minutes: a kill meanwhile must not take answers along that only waited to be due (I8)."""
    texts = [f"message {n}" for n in range(30)]
    texts[20] = "POISON"
    bench = Bench(tmp_path, make_spec(tmp_path, texts, shard_size=30))
    stands: list[int] = []
    factory = bench.engine_factory

    def counting_factory(faults: FakeFaults):
        build = factory(faults)

        def build_and_count():
            stands.append(bench.table.shards(bench.version)[0].results)
            return build()

        return build_and_count

    bench.engine_factory = counting_factory  # type: ignore[method-assign]
    worker, _ = bench.worker(faults=FakeFaults(crash="POISON"), part_records_max=1_000)
    worker.run()
    assert stands[0] == 0
    assert stands[1] >= 16  # two steps of eight were answered before the one that died
