"""Taking a shard over and committing parts: the fence (I7), one result (I1), bounded loss (I8)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_assets.domain.canonical import canonical_json
from batch_assets.domain.errors import LeaseLost, ObjectConflict
from batch_assets.domain.part import Base, epoch_prefix
from resources.results.parquet import fetch_parquet
from resources.results.staging import PartWriter, take_over, visible_parts
from tests.results.interrupted import InterruptedStore
from tests.results.world import JOB, World, read_json


def writer(world: World, epoch: int) -> PartWriter:
    return PartWriter(world.store, world.entry.spec, world.lease(0, epoch))


@pytest.fixture
def world(store, tmp_path) -> World:
    return World.build(store, tmp_path)


def test_a_successor_skips_what_is_committed(world):
    """Epoch 2 starts from epoch 1's parts and knows which rows have an answer and which a dead letter (I8)."""
    take_over(world.store, JOB, world.lease(0, 1))
    first = writer(world, 1)
    part = first.commit(world.results(0, [0, 1, 2]))
    dead = first.bury(world.dead(0, [3, 2]))
    taken = take_over(world.store, JOB, world.lease(0, 2))
    assert set(taken.parts) == {part, dead}
    assert taken.answered == {0, 1, 2}
    assert taken.buried == {3}, "row 2 has a result, which counts"
    assert taken.committed == {0, 1, 2, 3}


def test_a_late_part_never_counts(world):
    """The paused worker that wakes late: what it commits after the take-over stays invisible, for good (I7)."""
    take_over(world.store, JOB, world.lease(0, 1))
    zombie = writer(world, 1)
    zombie.commit(world.results(0, [0]))
    take_over(world.store, JOB, world.lease(0, 2))
    late = zombie.commit(world.results(0, [1, 2]))
    assert late not in visible_parts(world.store, JOB, world.version, 0)
    for epoch in (3, 4):
        taken = take_over(world.store, JOB, world.lease(0, epoch))
        assert taken.answered == {0}, "nobody else has done rows 1 and 2, and still they do not count"


def test_a_base_that_comes_late_does_not_count(world):
    """Epoch 2 stalls before its base, epoch 3 takes over, epoch 2 wakes: it is told, and changes nothing."""
    take_over(world.store, JOB, world.lease(0, 1))
    kept = writer(world, 1).commit(world.results(0, [0]))
    take_over(world.store, JOB, world.lease(0, 3))
    with pytest.raises(LeaseLost):
        take_over(world.store, JOB, world.lease(0, 2))
    writer(world, 2).commit(world.results(0, [5]))
    assert visible_parts(world.store, JOB, world.version, 0) == (kept,)


def test_parts_before_any_base_do_not_count(world):
    """A lease writes its base first; a part without one is a bug's, and is not shown."""
    writer(world, 1).commit(world.results(0, [0]))
    assert visible_parts(world.store, JOB, world.version, 0) == ()
    assert take_over(world.store, JOB, world.lease(0, 2)).committed == frozenset()


def test_taking_over_again_gives_the_same_base(world):
    """A lost answer to the base's put: the second try finds it and is bound by it, even if a late part came between."""
    take_over(world.store, JOB, world.lease(0, 1))
    zombie = writer(world, 1)
    zombie.commit(world.results(0, [0]))
    first = take_over(world.store, JOB, world.lease(0, 2))
    zombie.commit(world.results(0, [1]))
    assert take_over(world.store, JOB, world.lease(0, 2)) == first
    assert read_json(world.store, f"{epoch_prefix(JOB, world.version, 0, 2)}/base.json")["accepted"] == list(
        first.parts
    )


def test_a_base_that_landed_behind_our_back_binds(tmp_path, memory_store):
    """The put of the base timed out, was tried again after a new listing, and then the first one landed."""
    store = InterruptedStore(memory_store())
    world = World.build(store, tmp_path)
    take_over(store, JOB, world.lease(0, 1))
    zombie = writer(world, 1)
    kept = zombie.commit(world.results(0, [0]))
    base = f"{epoch_prefix(JOB, world.version, 0, 2)}/base.json"

    first_try = canonical_json(Base(epoch=2, accepted=(kept,)).to_json()).encode()
    # The second listing sees one part more than the try that lands first.
    store.before_list.append(lambda: zombie.commit(world.results(0, [1])))
    store.before_put.append(lambda: store.put_if_absent(base, first_try))
    assert take_over(store, JOB, world.lease(0, 2)).parts == (kept,)


def test_a_number_is_not_used_twice(tmp_path, memory_store):
    """A part whose put failed may have landed: the rows are committed again under the next number, and count once."""
    store = InterruptedStore(memory_store())
    world = World.build(store, tmp_path)
    take_over(store, JOB, world.lease(0, 1))
    mine = writer(world, 1)

    def fail() -> None:
        raise TimeoutError

    store.after_put.append(fail)
    with pytest.raises(TimeoutError):
        mine.commit(world.results(0, [0, 1]))
    mine.commit(world.results(0, [0, 1, 2]))
    assert len(mine.keys) == 1
    assert len(visible_parts(store, JOB, world.version, 0)) == 2
    assert take_over(store, JOB, world.lease(0, 2)).answered == {0, 1, 2}


def test_two_holders_of_one_epoch_are_noticed(world):
    """Epochs are granted once; if two workers ever held the same, the second one's part is refused, not hidden."""
    take_over(world.store, JOB, world.lease(0, 1))
    writer(world, 1).commit(world.results(0, [0]))
    with pytest.raises(ObjectConflict):
        writer(world, 1).commit(world.results(0, [1]))


def test_a_part_says_what_made_it(world):
    """The footer names version, recipe, model, shard and epoch; derived columns stay marked as untrusted (I9, I10)."""
    key = writer(world, 4).commit(world.results(0, [0]))
    table = fetch_parquet(world.store, key)
    metadata = {name.decode(): value.decode() for name, value in table.schema.metadata.items()}
    spec = world.entry.spec
    assert metadata["job_version"] == world.version
    assert metadata["recipe_digest"] == spec.recipe_digest
    assert metadata["model_digest"] == spec.model.digest
    assert (metadata["shard"], metadata["epoch"]) == ("0", "4")
    assert b"untrusted" in table.schema.field("summary").metadata[b"content"]


STEP = st.one_of(
    st.tuples(st.just("take"), st.just(0), st.just(0)),
    st.tuples(st.just("commit"), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("bury"), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("retake"), st.integers(0, 9), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=14))
def test_random_histories_show_what_the_model_says(tmp_path_factory, memory_store, steps):
    """Any sequence of take-overs, commits under the live epoch and late commits: exactly the live ones stand (I7)."""
    world = World.build(memory_store(), tmp_path_factory.mktemp("source"))
    writers: list[PartWriter] = []
    shown: list[str] = []
    late: set[str] = set()
    for action, who, row in steps:
        if action == "take":
            epoch = len(writers) + 1
            writers.append(writer(world, epoch))
            assert list(take_over(world.store, JOB, world.lease(0, epoch)).parts) == shown
        elif not writers:
            continue
        elif action == "retake" and who % len(writers) < len(writers) - 1:
            with pytest.raises(LeaseLost):
                take_over(world.store, JOB, world.lease(0, who % len(writers) + 1))
        elif action != "retake":
            epoch = who % len(writers) + 1
            mine = writers[epoch - 1]
            made = world.results if action == "commit" else world.dead
            key = (mine.commit if action == "commit" else mine.bury)(made(0, [row], epoch))
            if epoch == len(writers):
                shown = sorted([*shown, key])  # by epoch, then name: the order in which bases accept them
            else:
                late.add(key)
        assert list(visible_parts(world.store, JOB, world.version, 0)) == shown
        assert not late & set(shown)
