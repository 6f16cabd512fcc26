"""Cutting shards, and writing shard numbers as people and Dagster read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.errors import InputError
from batch_assets.domain.plan import (
    SHARDS_MAX,
    Plan,
    Shard,
    Slice,
    cut_shards,
    format_shards,
    parse_shards,
    shard_key,
)

OBJECT_ROWS = st.lists(st.integers(0, 40), max_size=6)


@given(OBJECT_ROWS, st.integers(1, 25))
def test_shards_cover_every_row_once_in_order(object_rows: list[int], shard_size: int) -> None:
    """Each shard but the last is full; together they are the snapshot, row for row."""
    shards = cut_shards(object_rows, shard_size)
    covered = [
        (piece.object_index, row) for slices in shards for piece in slices for row in range(piece.start, piece.stop)
    ]
    assert covered == [(index, row) for index, rows in enumerate(object_rows) for row in range(rows)]
    sizes = [sum(piece.rows for piece in slices) for slices in shards]
    assert all(size == shard_size for size in sizes[:-1])
    assert all(0 < size <= shard_size for size in sizes[-1:])
    assert all(piece.rows > 0 for slices in shards for piece in slices)


@given(OBJECT_ROWS, st.integers(1, 25))
def test_a_record_s_number_names_its_shard_and_its_row(object_rows: list[int], shard_size: int) -> None:
    """Planning finds a shard by division; that must be where the cut put the record."""
    number = 0
    for index, slices in enumerate(cut_shards(object_rows, shard_size)):
        for row in range(sum(piece.rows for piece in slices)):
            assert (number // shard_size, number % shard_size) == (index, row)
            number += 1


def test_the_most_shards_are_allowed_and_one_more_is_not() -> None:
    """The message says the least shard size that works."""
    assert len(cut_shards([SHARDS_MAX * 2], 2)) == SHARDS_MAX
    with pytest.raises(InputError, match="use shard_size 3"):
        cut_shards([SHARDS_MAX * 2 + 1], 2)


def test_a_plan_survives_json() -> None:
    """It is stored in the registry."""
    slices = (Slice(object_index=0, start=2, stop=5), Slice(object_index=1, start=0, stop=1))
    shard = Shard(index=3, slices=slices, records=4, refused=1, estimated_tokens=9)
    plan = Plan(version="v-1", shards=(shard,))
    assert Plan.from_json(plan.to_json()) == plan
    assert (plan.records, plan.refused, shard.key) == (4, 1, "00003")


def test_shard_keys_sort_as_numbers() -> None:
    """Dagster sorts partition keys as text."""
    keys = [shard_key(index) for index in (0, 9, 10, 99_999)]
    assert keys == sorted(keys)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_shard_numbers_survive_being_written_as_ranges(numbers: set[int]) -> None:
    """What is shown can be typed."""
    assert parse_shards(format_shards(list(numbers))) == tuple(sorted(numbers))


def test_shard_ranges_are_short() -> None:
    """Thousands of shards fit a line."""
    assert format_shards([7, 0, 1, 2, 3, 3]) == "0-3,7"
    assert format_shards([]) == ""
    assert parse_shards("7, 0-3,2") == (0, 1, 2, 3, 7)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,", "1-", "-1-2"])
def test_what_is_no_range_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"."):
        parse_shards(text)
