"""The release log as values: numbers rise, nothing is edited, rollback appends (I3)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.errors import UnknownVersion
from batch_assets.domain.release import Layer, Release, ReleasedObject, is_current, next_sequence, rollback


def release(sequence: int, version: str) -> Release:
    item = ReleasedObject(key=f"results/job/{version}/shard=00000-aa.parquet", digest="sha256:aa", rows=sequence)
    layers = (Layer(version=version, objects=(item,)),)
    return Release(
        sequence=sequence,
        job="job",
        version=version,
        layers=layers,
        reason="night",
        published_at="2026-03-01T12:00:00Z",
        checks={"coverage": "passed"},
    )


def log_of(versions: list[str]) -> list[Release]:
    return [release(number, version) for number, version in enumerate(versions, start=1)]


LOGS = st.lists(st.sampled_from(["v-1", "v-2", "v-3"]), max_size=6).map(log_of)


@given(LOGS, st.randoms())
def test_order_of_the_listing_does_not_matter(log, random):
    """A listing may come in any order: the highest number is current, and the next is one more."""
    shuffled = random.sample(log, len(log))
    assert next_sequence(shuffled) == len(log) + 1
    for version in ("v-1", "v-2", "v-3"):
        assert is_current(shuffled, version) == (bool(log) and log[-1].version == version)


@given(LOGS.filter(bool), st.data())
def test_rollback_appends_what_stood(log, data):
    """Rolling back to a number gives a new entry with that entry's version, layers and checks, word for word."""
    to = data.draw(st.integers(1, len(log)))
    again = rollback(log, to=to, reason="bad night", published_at="2026-03-02T12:00:00Z")
    target = log[to - 1]
    assert (again.version, again.layers, again.checks) == (target.version, target.layers, target.checks)
    assert (again.sequence, again.rolled_back_to, again.reason) == (len(log) + 1, to, "bad night")


@given(LOGS)
def test_rollback_without_a_number_leaves_the_current_version(log):
    """`to=None` is the newest release of another version; if there is none, it says so and changes nothing."""
    others = [item for item in log if item.version != log[-1].version]
    if others:
        assert rollback(log, to=None, reason="", published_at="").rolled_back_to == others[-1].sequence
    else:
        with pytest.raises(UnknownVersion):
            rollback(log, to=None, reason="", published_at="")


def test_rollback_to_a_number_that_is_not_there():
    """The message says which numbers there are."""
    with pytest.raises(UnknownVersion, match="releases 1 to 2"):
        rollback(log_of(["v-1", "v-2"]), to=9, reason="", published_at="")


@given(LOGS.filter(bool))
def test_a_release_survives_json(log):
    """`from_json` gives back what `to_json` said; rows are derived, not believed."""
    entry = replace(log[-1], rolled_back_to=1)
    value = entry.to_json()
    assert value["rows"] == entry.rows
    assert Release.from_json({**value, "rows": -1}) == entry
