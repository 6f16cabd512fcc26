"""A shard that was claimed and cannot be opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batch_assets.domain.errors import LeaseLost, StoreUnavailable
from tests.worker.harness import Bench, make_spec


def test_a_release_that_fails_does_not_hide_why_the_shard_could_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """World 12: the store was away, the release's answer was lost and its retry found no lease; the reason was gone."""
    bench = Bench(tmp_path, make_spec(tmp_path, ["one", "two"]))
    worker, _ = bench.worker()

    def away(*_: Any) -> list[Any]:
        raise StoreUnavailable("the store is away")

    def lost(*_: Any, **__: Any) -> None:
        raise LeaseLost("the first try had released it")

    monkeypatch.setattr(bench.store, "list", away)
    monkeypatch.setattr(bench.table, "release", lost)
    with pytest.raises(StoreUnavailable, match="the store is away"):
        worker.run()
