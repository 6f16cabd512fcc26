"""The checkers see what they are for: production code with one line broken makes some world fail for that reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from batch_assets.domain import lease as transitions
from batch_assets.domain.part import part_epoch
from batch_assets.domain.suspects import Suspects
from resources.results import staging
from tests.simulation.conftest import Play
from worker import successor
from worker.answers import AnswerReader
from worker.commits import Committer
from worker.open_shard import Buffer, OpenShard
from worker.watchdog import Watchdog

WORLDS = 200


def breaks(play: Play, invariant: str) -> bool:
    """Say whether some world breaks with this invariant's name (others may break for what follows from it)."""
    found = (play(seed).broken for seed in range(WORLDS))
    return any(broken is not None and broken.invariant == invariant for broken in found)


def test_late_parts_that_count_are_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fence a base accepts whatever lies there, also what a worker wrote after it had lost its lease."""

    def everything(keys: Iterable[str], newest_base: object) -> tuple[str, ...]:
        return tuple(sorted(key for key in keys if part_epoch(key) is not None))

    monkeypatch.setattr(staging, "standing_parts", everything)
    assert breaks(play, "I7")


def test_a_table_without_the_fence_is_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard table that takes changes under an old epoch."""
    monkeypatch.setattr(transitions, "check_live", lambda *_: None)
    assert breaks(play, "I7")


def test_a_base_that_forgets_parts_is_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A takeover that starts from nothing would redo, and change, what was committed."""
    monkeypatch.setattr(staging, "standing_parts", lambda *_: ())
    assert breaks(play, "I7")


def test_counts_before_the_commit_are_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting a part before it stands: a put that fails leaves the table saying more than there is."""
    original = Committer._commit

    def commit(self: Committer, shard: OpenShard, results: list[Any], dead: list[Any]) -> None:
        shard.committed_results += 1
        try:
            original(self, shard, results, dead)
        finally:
            shard.committed_results -= 1

    monkeypatch.setattr(Committer, "_commit", commit)
    assert breaks(play, "I6")


def test_parts_that_are_never_due_are_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committing only at the end of a shard loses a shard's work to a kill."""
    monkeypatch.setattr(Buffer, "due", lambda *_, **__: False)
    assert breaks(play, "I8")


def test_blame_for_the_whole_company_is_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charging the first of those in flight, not the one that dies alone, buries a healthy record."""
    original = Suspects.accuse

    def accuse(self: Suspects[Any], records: Any) -> Any:
        original(self, records[:1])
        self.add(list(records[1:]))
        return records[0]

    monkeypatch.setattr(Suspects, "accuse", accuse)
    assert breaks(play, "I4")


@pytest.mark.parametrize("column", ["epoch", "worker", "shard", "record_id", "output_sha256", "job_version"])
def test_a_lie_about_a_results_origin_is_seen(play: Play, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    """Each column of provenance is compared with what happened."""
    original: Callable[..., dict[str, Any]] = AnswerReader.result

    def result(*args: Any, **named: Any) -> dict[str, Any]:
        row = original(*args, **named)
        return {**row, column: row[column] + (1 if isinstance(row[column], int) else "x")}

    monkeypatch.setattr(AnswerReader, "result", result)
    assert breaks(play, "I10")


def test_a_shard_that_nobody_can_claim_again_is_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that leaves a shard leased for ever: the world must not wait for ever, too."""
    original = transitions.release

    def release(row: Any, lease: Any, **counts: Any) -> Any:
        return replace(original(row, lease, **counts), state=transitions.ShardState.LEASED, expires_at_s=1e12)

    monkeypatch.setattr(transitions, "release", release)
    assert breaks(play, "I4")


def test_a_successor_that_suspects_nobody_is_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that kills whole workers then kills every one of them."""
    monkeypatch.setattr(successor, "suspects_after", lambda *_, **__: 0)
    assert breaks(play, "I4")


def test_a_watchdog_that_sleeps_is_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that stands still holds its records for ever."""
    monkeypatch.setattr(Watchdog, "look", lambda _: None)
    assert breaks(play, "I4")


def test_a_charge_that_is_not_given_back_is_seen(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspect that answers was not the killer."""
    monkeypatch.setattr(successor.Successor, "cleared", lambda _, shard, prepared: shard.tries(prepared.row.row))
    assert breaks(play, "I4")
