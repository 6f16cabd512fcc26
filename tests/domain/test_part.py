"""Which parts count, decided from names alone (I1, I7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.part import (
    Base,
    base_epochs,
    dead_result_key,
    epoch_prefix,
    is_dead_part,
    part_epoch,
    release_key,
    result_key,
    standing_parts,
)

KINDS = st.sampled_from(["part", "dead"])
PLACES = st.tuples(st.integers(1, 9), KINDS, st.integers(0, 9))


def key(epoch: int, kind: str, number: int) -> str:
    return f"{epoch_prefix('job', 'v-1', 7, epoch)}/{kind}-{number:05d}.parquet"


@given(st.sets(PLACES), st.integers(1, 9), st.data())
def test_only_the_base_and_its_own_epoch_count(places, epoch, data):
    """A part stands if the newest base names it or it is of that base's epoch; a late one never does (I7)."""
    listing = sorted(key(*place) for place in places)
    older = [item for item in listing if (part_epoch(item) or 0) < epoch]
    accepted = tuple(data.draw(st.lists(st.sampled_from(older), unique=True) if older else st.just([])))
    standing = standing_parts(listing, Base(epoch=epoch, accepted=accepted))
    assert set(standing) == set(accepted) | {item for item in listing if part_epoch(item) == epoch}
    assert standing[: len(accepted)] == accepted, "what was accepted first is first"
    assert len(standing) == len(set(standing))


@given(st.sets(PLACES))
def test_nothing_stands_before_a_base(places):
    """A lease writes its base first, so a part without any base was written by nobody that holds the shard."""
    assert standing_parts([key(*place) for place in places], None) == ()


@given(st.integers(0, 99_999), st.integers(0, 9_999), KINDS, st.integers(0, 99_999))
def test_names_are_read_back(shard, epoch, kind, number):
    """The epoch and kind of a part are in its key; a base is no part, and a part no base."""
    prefix = epoch_prefix("job", "v-1", shard, epoch)
    part, base = f"{prefix}/{kind}-{number:05d}.parquet", f"{prefix}/base.json"
    assert part_epoch(part) == epoch
    assert is_dead_part(part) == (kind == "dead")
    assert base_epochs([part, base]) == {epoch: base}
    assert part_epoch(base) is None


def test_other_names_are_no_parts():
    """A temporary or foreign file below a shard's prefix is neither part nor base."""
    prefix = epoch_prefix("job", "v-1", 3, 2)
    for name in ("part-00000.parquet.tmp", "part-x.parquet", "base.json#1", "notes.txt", "parts/part-00000.json"):
        assert part_epoch(f"{prefix}/{name}") is None
        assert base_epochs([f"{prefix}/{name}"]) == {}


@given(st.integers(0, 9), st.lists(st.text("abc/=.0123456789", min_size=1)))
def test_a_base_survives_json(epoch, accepted):
    """`from_json` gives back what `to_json` said."""
    base = Base(epoch=epoch, accepted=tuple(accepted))
    assert Base.from_json(base.to_json()) == base


def test_text_order_is_number_order():
    """Listings are sorted as text; releases and epochs must come in the order of their numbers."""
    numbers = [1, 2, 9, 10, 99, 100, 9_999]
    for name in (lambda n: release_key("job", n), lambda n: epoch_prefix("job", "v-1", 0, n)):
        assert sorted(map(name, numbers)) == list(map(name, numbers))


def test_compact_objects_are_named_by_their_bytes():
    """Other bytes have another key, so a compact object is never overwritten, and results are not dead letters."""
    one, two = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    keys = {build("job", "v-1", 4, digest) for build in (result_key, dead_result_key) for digest in (one, two)}
    assert len(keys) == 4
