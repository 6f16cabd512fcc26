"""A shard that is finished while its lease is being renewed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.worker.harness import Bench, make_spec
from worker.heartbeat import renew
from worker.loop import Exit


def test_a_renewal_between_a_completion_and_its_answer_does_not_end_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """World 1745: the table had taken the shard as done, its answer was late; a renewal came first and found no lease.

    The worker let the shard go as lost, then heard that it was finished, and died of a list without it.
    """
    bench = Bench(tmp_path, make_spec(tmp_path, ["one", "two", "three"]))
    worker, _ = bench.worker()
    complete = bench.table.complete

    def late_answer(*args: Any, **named: Any) -> None:
        complete(*args, **named)
        (shard,) = worker.open_shards
        renew(bench.table, shard, ttl_s=600)  # the heartbeat's thread
        worker._sweep()  # the main thread, which goes on meanwhile

    monkeypatch.setattr(bench.table, "complete", late_answer)
    assert worker.run() is Exit.DONE
    assert len(bench.rows()) == 3
