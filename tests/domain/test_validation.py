"""Verdicts from counts (I6)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.validation import CheckResult, Coverage, refusals

COUNT = st.integers(0, 1_000)


def coverage(records: int, results: int, dead: int, **faults: int) -> Coverage:
    clean = {"duplicate_keys": 0, "foreign_keys": 0, "both": 0, "shards_missing": 0}
    return Coverage(records=records, results=results, dead_letters=dead, **{**clean, **faults})


@given(COUNT, COUNT, COUNT)
def test_passes_exactly_when_the_counts_add_up(records, results, dead):
    """Snapshot = results + dead letters + pending (I6); a finished version has none pending, and some result."""
    found = coverage(records, results, dead)
    assert found.records == found.results + found.dead_letters + found.pending
    assert found.passed == (records == results + dead and (results > 0 or records == 0))


@pytest.mark.parametrize("fault", ["duplicate_keys", "foreign_keys", "both", "shards_missing"])
def test_each_fault_alone_is_refused_with_its_number(fault):
    """Sums that add up by accident (one record twice, another missing) do not pass."""
    found = replace(coverage(10, 9, 1), **{fault: 37})
    assert not found.passed
    assert any("37" in problem for problem in found.problems())


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_only_blocking_failures_refuse(verdicts):
    """A gate that warns never holds a version back; each that blocks is named."""
    checks = [
        CheckResult(name=f"check{number}", passed=passed, blocking=blocking, summary="why", details={})
        for number, (passed, blocking) in enumerate(verdicts)
    ]
    expected = [f"{check.name}: why" for check in checks if check.blocking and not check.passed]
    assert refusals(checks) == expected


def test_a_version_without_any_result_is_not_published() -> None:
    """Incident: an input of nothing but bad records made an empty table, whose counts added up."""
    counts = Coverage(records=5, results=0, dead_letters=5, duplicate_keys=0, foreign_keys=0, both=0, shards_missing=0)
    assert counts.problems() == ["none of its 5 records has a result: there is nothing to publish"]
