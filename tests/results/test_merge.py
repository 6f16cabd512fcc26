"""Finishing a shard: one row a record (I1), one recipe (I2), nothing lost and nothing made up (I6)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.errors import ConservationBroken, ObjectDamaged, ObjectMissing, RecipeMixed
from batch_assets.domain.lease import Outcome
from resources.results.merge import finish_shard
from resources.results.parquet import fetch_parquet
from resources.results.staging import PartWriter, take_over
from tests.results.world import JOB, World, make_spec


@pytest.fixture
def world(store, tmp_path) -> World:
    return World.build(store, tmp_path, refused=[1])


def finish(world: World, duck, keys, epoch: int = 1) -> Outcome:
    return finish_shard(world.store, duck, world.entry.spec, world.lease(0, epoch), world.plan.shards[0], keys)


def writer(world: World, epoch: int = 1) -> PartWriter:
    take_over(world.store, JOB, world.lease(0, epoch))
    return PartWriter(world.store, world.entry.spec, world.lease(0, epoch))


def test_parts_become_one_object(world, duck):
    """Rows are sorted, complete and as committed; the key is named by the bytes; tokens are summed."""
    mine = writer(world)
    mine.commit(world.results(0, [9, 0, 4]))
    mine.commit(world.results(0, [2, 3, 5, 6, 7]))
    mine.bury(world.dead(0, [8]))
    outcome = finish(world, duck, mine.keys)
    assert (outcome.results, outcome.dead_letters) == (8, 1)
    assert (outcome.prompt_tokens, outcome.cached_tokens, outcome.output_tokens) == (900, 480, 90)
    assert digest_of_bytes(world.store.get(outcome.result_key)) == outcome.result_digest
    table = fetch_parquet(world.store, outcome.result_key)
    assert table.column("row").to_pylist() == [0, 2, 3, 4, 5, 6, 7, 9]
    expected = world.results(0, [0, 2, 3, 4, 5, 6, 7, 9])
    assert table.replace_schema_metadata(None).equals(expected)
    assert outcome.dead_key is not None
    letters = fetch_parquet(world.store, outcome.dead_key)
    assert letters.column("output").to_pylist() == [b"\xff{"], "bytes that are no text survive"


def test_metadata_survives_the_merge(world, duck):
    """The compact object says job, version, recipe and model; derived columns stay marked as untrusted (I9, I10)."""
    table = fetch_parquet(world.store, world.run_shard(duck, world.plan.shards[0]).result_key)
    metadata = {name.decode(): value.decode() for name, value in table.schema.metadata.items()}
    spec = world.entry.spec
    assert (metadata["job"], metadata["job_version"], metadata["shard"]) == (JOB, world.version, "0")
    assert (metadata["recipe_digest"], metadata["model_digest"]) == (spec.recipe_digest, spec.model.digest)
    for name in spec.schema["properties"]:
        assert table.schema.field(name).metadata[b"content"].startswith(b"untrusted")
    assert not table.schema.field("record_id").metadata


def test_the_first_committed_answer_wins(world, duck):
    """A record answered under two epochs has the older answer, whole, whatever the newer one says (I1)."""
    first = writer(world, 1).commit(world.results(0, [0, 2], 1, summary="first"))
    taken = take_over(world.store, JOB, world.lease(0, 2))
    second = writer(world, 2).commit(world.results(0, [2, 0, 3, 4, 5, 6, 7, 8, 9], 2, summary="second"))
    assert taken.parts == (first,)
    outcome = finish(world, duck, [first, second], 2)
    table = fetch_parquet(world.store, outcome.result_key)
    assert table.column("summary").to_pylist() == ["first"] * 2 + ["second"] * 7
    assert table.column("epoch").to_pylist() == [1] * 2 + [2] * 7


def test_a_result_wins_over_a_dead_letter(world, duck):
    """A row with both is answered; counting it twice would break I6."""
    mine = writer(world)
    mine.bury(world.dead(0, [0, 2]))
    mine.commit(world.results(0, [0, 3, 4, 5, 6, 7, 8, 9]))
    outcome = finish(world, duck, mine.keys)
    assert (outcome.results, outcome.dead_letters) == (8, 1)


def test_finishing_twice_gives_the_same_object(world, duck):
    """A lost answer: the second try finds its own bytes; the shard table accepts the same outcome again."""
    mine = writer(world)
    mine.commit(world.results(0, world.open_rows(world.plan.shards[0])))
    assert finish(world, duck, mine.keys) == finish(world, duck, mine.keys)
    assert len(world.store.list(f"results/{JOB}")) == 1


def test_all_records_dead(world, duck):
    """A shard without one answer is finished, too: an object without rows, and its dead letters (I4)."""
    mine = writer(world)
    mine.bury(world.dead(0, world.open_rows(world.plan.shards[0])))
    outcome = finish(world, duck, mine.keys)
    assert (outcome.results, outcome.dead_letters) == (0, 9)
    assert fetch_parquet(world.store, outcome.result_key).num_rows == 0


def test_a_wholly_refused_shard_needs_no_part(store, tmp_path, duck):
    """Planning refused every record: the worker has nothing to do, and the shard still adds up."""
    world = World.build(store, tmp_path, refused=range(10))
    outcome = finish(world, duck, [])
    assert (outcome.results, outcome.dead_letters, outcome.dead_key) == (0, 0, None)


@pytest.mark.parametrize(
    ("live", "dead", "why"),
    [
        ([0, 2, 3, 4, 5, 6, 7, 8], [], "8 results [+] 0 dead letters are not 10 records - 1 refused"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [], "10 results"),
        ([0, 2, 3, 4, 5, 6, 7], [9], "7 results [+] 1 dead letters"),
    ],
)
def test_torn_conservation_is_refused(world, duck, live, dead, why):
    """One row short, one too many (a refused one answered), one short with a dead letter: nothing is put (I6)."""
    mine = writer(world)
    mine.commit(world.results(0, live))
    mine.bury(world.dead(0, dead))
    with pytest.raises(ConservationBroken, match=why):
        finish(world, duck, mine.keys)
    assert world.store.list("results") == []
    assert world.store.list("dead_letters") == []


def test_a_right_count_of_wrong_rows_is_refused(world, duck):
    """The sum alone proves nothing: a row outside of the shard, or a record in two rows, is refused with its count."""
    mine = writer(world)
    good = world.results(0, [0, 2, 3, 4, 5, 6, 7, 8])
    stray = world.results(0, [9])
    outside = stray.set_column(
        stray.schema.get_field_index("row"), stray.schema.field("row"), pa.array([10], pa.int32())
    )
    keys = [mine.commit(good), mine.commit(outside)]
    with pytest.raises(ConservationBroken, match="1 rows lie outside"):
        finish(world, duck, keys)
    twin = world.results(0, [9], record_id="r000000")
    with pytest.raises(ConservationBroken, match="1 record ids stand in more than one row"):
        finish(world, duck, [keys[0], mine.commit(twin)])
    other = world.results(0, [0, 9], record_id="r000009")
    with pytest.raises(ConservationBroken, match="1 rows stand under more than one record id"):
        finish(world, duck, [keys[0], mine.commit(other)])


@pytest.mark.parametrize("column", ["job_version", "recipe_digest", "model_digest", "shard"])
def test_a_row_of_another_recipe_is_refused(world, duck, column):
    """A part that another version, recipe, model or shard made never gets into this one (I2)."""
    mine = writer(world)
    mine.commit(world.results(0, [0, 2, 3, 4, 5, 6, 7, 8]))
    mine.commit(world.results(0, [9], **{column: 1 if column == "shard" else "other"}))
    with pytest.raises(RecipeMixed, match=column):
        finish(world, duck, mine.keys)
    assert world.store.list("results") == []


def test_a_part_of_another_schema_is_refused(world, duck):
    """A part without this job's columns is damage, not a shorter row."""
    other = make_spec({"type": "object", "properties": {"label": {"type": "string"}}})
    key = writer(world).commit(world.of(other).results(0, []))
    with pytest.raises(ObjectDamaged, match="category"):
        finish(world, duck, [key])


def test_a_part_that_is_gone_or_torn_is_named(world, duck):
    """A missing or cut part is an error that names it, never a part without rows."""
    key = writer(world).commit(world.results(0, [0]))
    data = world.store.get(key)
    world.store.delete(key)
    with pytest.raises(ObjectMissing, match="part-00000"):
        finish(world, duck, [key])
    world.store.put_if_absent(key, data[:-20])
    with pytest.raises(ObjectDamaged, match="part-00000"):
        finish(world, duck, [key])


@settings(max_examples=40, deadline=None)
@given(
    cuts=st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 9), min_size=1)), min_size=1, max_size=6),
)
def test_any_overlap_of_parts_gives_each_row_once(tmp_path_factory, duck, memory_store, cuts):
    """However rows overlap in parts: each once, from the first part that has it, or the shard is refused (I1, I6)."""
    world = World.build(memory_store(), tmp_path_factory.mktemp("source"))
    mine = writer(world)
    first: dict[int, str] = {}
    dead: set[int] = set()
    for number, (is_dead, rows) in enumerate(cuts):
        if is_dead:
            mine.bury(world.dead(0, sorted(rows)))
            dead |= rows
        else:
            mine.commit(world.results(0, sorted(rows), summary=f"part {number}"))
            first = {**dict.fromkeys(rows, f"part {number}"), **first}
    if first.keys() | dead != set(range(10)):
        with pytest.raises(ConservationBroken):
            finish(world, duck, mine.keys)
        return
    outcome = finish(world, duck, mine.keys)
    table = fetch_parquet(world.store, outcome.result_key)
    shown = dict(zip(table.column("row").to_pylist(), table.column("summary").to_pylist(), strict=True))
    assert shown == first
    assert outcome.dead_letters == len(dead - first.keys())
