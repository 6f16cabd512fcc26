"""Counts of a diff, and the two reasons for which a night builds nothing on it."""

from __future__ import annotations

from typing import Any

import pytest

from batch_assets.domain.changes import Changes, refuses, skip_reason
from batch_assets.domain.errors import ConservationBroken


def changes(**counts: Any) -> Changes:
    names = ("new", "changed", "deleted", "unchanged", "unusable_old", "unusable_new", "blurred")
    return Changes(**{**dict.fromkeys(names, 0), "unusable_alike": True, **counts})


def test_the_counts_add_up_to_both_snapshots() -> None:
    """Every row is counted once on its side."""
    counted = changes(new=1, changed=2, deleted=4, unchanged=8, unusable_old=16, unusable_new=32)
    counted.check(rows_old=30, rows_new=43)
    assert counted.delta_rows == 35
    assert Changes(**counted.to_json()) == counted
    for rows_old, rows_new in ((29, 43), (30, 44)):
        with pytest.raises(ConservationBroken, match="rows, their difference"):
            counted.check(rows_old=rows_old, rows_new=rows_new)


def test_a_negative_count_never_passes() -> None:
    """Two wrong counts can have a right sum."""
    with pytest.raises(ConservationBroken):
        changes(new=2, unchanged=-1).check(rows_old=-1, rows_new=1)


@pytest.mark.parametrize(
    ("counts", "share", "refused"),
    [
        ({"unchanged": 80, "deleted": 20}, 0.2, False),
        ({"unchanged": 79, "deleted": 21}, 0.2, True),
        ({"changed": 79, "deleted": 21, "new": 1_000}, 0.2, True),
        ({"unchanged": 100, "unusable_old": 500}, 0.0, False),
        ({"unchanged": 99, "unusable_old": 1, "blurred": 1, "unusable_new": 2}, 0.0, True),
        ({"unusable_old": 100, "unusable_new": 200, "blurred": 100}, 0.5, True),
        ({"deleted": 100}, 1.0, False),
        ({"new": 100}, 0.0, False),
        ({}, 0.0, False),
    ],
)
def test_the_guard(counts: dict[str, int], share: float, *, refused: bool) -> None:
    """An upstream accident is not a mass deletion; a file that was delivered twice is an accident, too."""
    assert (refuses(changes(**counts), share) is not None) == refused


def test_the_guard_says_how_much_and_what_to_do() -> None:
    """Whoever reads it at six in the morning needs the numbers and the way out."""
    reason = refuses(changes(unchanged=900, deleted=1_095, blurred=5, unusable_old=5), 0.2) or ""
    assert "lost 1,100 of 2,000 records (55.0%, the limit is 20.0%)" in reason
    assert "1,095 are gone, 5 have an id that it now gives more than once" in reason
    assert "higher limit" in reason


@pytest.mark.parametrize("name", ["new", "changed", "deleted"])
def test_one_change_is_enough(name: str) -> None:
    """Nothing is skipped while something happened."""
    assert skip_reason(changes(unchanged=5, **{name: 1})) is None


def test_the_same_unusable_rows_every_night_are_no_change() -> None:
    """Five rows without an id must not start a fleet each night; other ones do, for their dead letters."""
    assert skip_reason(changes(unchanged=5)) == "nothing changed: 5 records as before"
    alike = changes(unchanged=5, unusable_old=3, unusable_new=3)
    assert skip_reason(alike) == "nothing changed: 5 records as before and the same 3 rows without a usable id"
    assert skip_reason(changes(unchanged=5, unusable_old=3, unusable_new=3, unusable_alike=False)) is None
