"""The schema check looks at what is stored: each broken rule is named with the record's id."""

from __future__ import annotations

import json

import pytest

from batch_assets.domain.spec import JobSpec
from resources.results.merge import finish_shard
from resources.results.staging import PartWriter
from resources.results.table_check import EXAMPLES_PER_RULE_MAX, check_table
from resources.results.table_rules import table_rules
from tests.results.world import SCHEMA, World, make_spec, with_object


@pytest.fixture
def world(store, tmp_path) -> World:
    return World.build(store, tmp_path)


def check(world: World, rows):
    return check_table(world.store, world.entry, rows, blocking=True)


def with_answer(world: World, duck, **answer):
    """A finished first shard in which row 3 has another answer."""
    shard = world.plan.shards[0]
    writer = PartWriter(world.store, world.entry.spec, world.lease(0))
    writer.commit(world.results(0, [0, 1, 2, 4, 5, 6, 7, 8, 9]))
    writer.commit(world.results(0, [3], 1, **answer))
    outcome = finish_shard(world.store, duck, world.entry.spec, world.lease(0), shard, writer.keys)
    return [world.row(shard, outcome)]


def test_good_rows_pass(world, duck):
    """A full run satisfies its own schema, and the verdict is plain JSON."""
    found = check(world, world.run(duck, dead={0: [1]}))
    assert found.passed
    assert found.summary == "24 rows satisfy the output schema"
    assert json.loads(json.dumps(found.details)) == found.details


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        ({"category": "invented"}, "category: enum"),
        ({"category": None}, "category: not_nullable"),
        ({"tags": ["a", "b", "c", "d"]}, "tags: maxItems"),
        ({"tags": ["far too long"]}, "tags: items.maxLength"),
        ({"tags": ["a", None]}, "tags: items.null"),
        ({"tags": None}, "tags: not_nullable"),
        ({"summary": ""}, "summary: minLength"),
        ({"summary": "x" * 41}, "summary: maxLength"),
        ({"score": -0.1}, "score: minimum"),
        ({"score": 1.5}, "score: maximum"),
        ({"urgent": None}, "urgent: not_nullable"),
        ({"attempts": 0}, "attempts: minimum"),
        ({"output_tokens": -1}, "output_tokens: minimum"),
        ({"output_sha256": "none"}, "output_sha256: digest"),
        ({"finish_reason": ""}, "finish_reason: minLength"),
    ],
)
def test_each_broken_rule_names_the_record(world, duck, answer, rule):
    """One bad value among good ones: one failure, with its record's id, column, rule and value."""
    found = check(world, with_answer(world, duck, **answer))
    assert not found.passed
    assert found.details["counts"] == {rule: 1}
    (failure,) = found.details["failures"]
    assert failure["record_id"] == "r000003"
    assert f"{failure['column']}: {failure['check']}" == rule
    assert rule in found.summary


@pytest.mark.parametrize(("length", "passes"), [(40, True), (41, False)])
def test_lengths_are_characters(world, duck, length, passes):
    """JSON Schema counts characters, not bytes: 40 emoji are 40, whatever UTF-8 makes of them."""
    assert check(world, with_answer(world, duck, summary="😀" * length)).passed == passes


def test_every_failure_is_counted_but_few_are_shown(store, tmp_path, duck):
    """A version gone wrong altogether: the verdict stays small and its numbers stay true."""
    world = World.build(store, tmp_path, object_rows=[300], spec=make_spec(shard_size=100))
    found = check(world, world.run(duck, category="invented", summary="y" * 1_000))
    assert found.details["failed"] == 600
    assert found.details["counts"] == {"category: enum": 300, "summary: maxLength": 300}
    assert len(found.details["failures"]) == 2 * EXAMPLES_PER_RULE_MAX
    assert max(len(str(item["value"])) for item in found.details["failures"]) <= 200


def test_an_object_that_cannot_be_read_is_a_failure(world, duck):
    """What cannot be looked at is not valid."""
    rows = world.run(duck)
    world.store.delete(rows[2].outcome.result_key)
    found = check(world, rows)
    assert found.details["rows"] == 20
    assert [item["check"] for item in found.details["failures"]] == ["readable"]
    assert rows[2].outcome.result_key in found.details["failures"][0]["value"]


def test_an_object_of_another_recipe_s_schema_fails(world, duck, tmp_path):
    """An object with other columns is named column by column, beside the good ones."""
    rows = world.run(duck)
    spec = make_spec({"type": "object", "properties": {"label": {"type": "string"}}})
    rows[1] = with_object(world, rows[1], world.of(spec).results(1, range(10)))
    found = check(world, rows)
    counts = found.details["counts"]
    assert counts["label: column_in_schema"] == 1
    assert counts["category: column_in_dataframe"] == 1
    assert counts["recipe_digest: this_version"] == 5 * 2


def nested_spec() -> JobSpec:
    return make_spec(
        {
            "type": "object",
            "$defs": {"party": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
            "properties": {
                "parties": {"type": "array", "items": {"$ref": "#/$defs/party"}, "maxItems": 2},
                "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
                "note": {"type": ["string", "null"], "maxLength": 5},
                "level": {"enum": [1, 2]},
            },
            "required": ["parties", "code", "note"],
        }
    )


GOOD = {"parties": '[{"name":"A"}]', "code": "DE", "note": None, "level": "2"}


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        ({}, None),
        ({"level": None}, None),
        ({"note": "short"}, None),
        ({"parties": '[{"nom":"A"}]'}, "parties: json_schema"),
        ({"parties": "[{}"}, "parties: json_schema"),
        ({"parties": None}, "parties: not_nullable"),
        ({"code": "de"}, "code: json_schema"),
        ({"note": "longer"}, "note: maxLength"),
        ({"level": "3"}, "level: json_schema"),
    ],
)
def test_keywords_without_an_expression_are_checked_by_the_validator(store, tmp_path, duck, answer, rule):
    """References, nested objects, patterns, nullable and untyped properties: nothing in a schema goes unchecked."""
    world = World.build(store, tmp_path, spec=nested_spec(), object_rows=[3])
    found = check(world, world.run(duck, **{**GOOD, **answer}))
    assert found.details["counts"] == ({} if rule is None else {rule: 3})


def test_every_column_has_a_rule():
    """The check covers the whole table: answer, carried columns and provenance."""
    rules = table_rules(make_spec(), "v-1")
    assert set(SCHEMA["properties"]) < set(rules.columns)
    assert {"record_id", "lang", "job_version", "answered_at"} < set(rules.columns)
    assert rules.strict
