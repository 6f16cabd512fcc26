"""The declared job over the user's own records: what is read, what is left out, and that it is said."""

from __future__ import annotations

import json

import pytest

from batch_assets.cli.own_input import OwnInput, with_own_input
from batch_assets.domain.errors import InputError, InvalidSpec, UserError
from batch_assets.domain.spec import DecodingSpec, InputColumns, InputSpec, JobSpec, ModelSpec, PromptSpec, version_name

DIGEST = "sha256:" + "0" * 64


def spec(user: str = "{text}") -> JobSpec:
    columns = InputColumns(carry=("lang", "source"), access="access")
    return JobSpec(
        name="tickets",
        input=InputSpec(uri="declared.jsonl", columns=columns, limit=200),
        model=ModelSpec(name="fake", path="none", digest=DIGEST, engine="fake"),
        prompt=PromptSpec(system="Sort.", user=user),
        decoding=DecodingSpec(max_tokens=10),
        output_schema=json.dumps({"type": "object", "properties": {"a": {"type": "string"}}}),
    )


def test_columns_that_are_there_are_read_and_the_others_are_named() -> None:
    """A user who is not told that a column is missing finds out when the results are published."""
    own = OwnInput(uri="own.csv", id_column="no", text_column="body")
    changed, notes = with_own_input(spec(), own, ["no", "body", "lang"])
    assert changed.input.columns == InputColumns(id="no", text="body", carry=("lang",))
    assert "source" in notes[0]
    assert "lang" not in notes[0]


def test_lost_access_labels_are_said() -> None:
    """Results inherit access labels (I9): where the input has none, silence would look like permission."""
    _, notes = with_own_input(spec(), OwnInput(uri="own.csv"), ["record_id", "text", "lang", "source"])
    assert notes == ["no access labels: the input has no column 'access', so the results carry none"]


def test_access_labels_under_another_name() -> None:
    """A user's labels may have another name."""
    changed, notes = with_own_input(
        spec(), OwnInput(uri="own.csv", access_column="groups"), ["record_id", "text", "lang", "source", "groups"]
    )
    assert changed.input.columns.access == "groups"
    assert notes == []


@pytest.mark.parametrize(
    ("own", "said"), [(OwnInput(id_column="nr"), "'nr'.*--id-column"), (OwnInput(), "'text'.*--text")]
)
def test_an_id_or_text_that_is_not_there(own: OwnInput, said: str) -> None:
    """JSON lines without the named key made 200 dead letters and a published, empty release: exit 0."""
    with pytest.raises(InputError, match=f"has no column {said}"):
        with_own_input(spec(), own, ["record_id", "body"])


def test_named_columns_are_taken_at_their_word() -> None:
    """What the user names is not dropped for being absent: the snapshot refuses it by name."""
    changed, notes = with_own_input(
        spec(), OwnInput(uri="own.csv", carry="lang, team"), ["record_id", "text", "access"]
    )
    assert changed.input.columns.carry == ("lang", "team")
    assert notes == ["not carried to the results (not in --carry): source"]


def test_carry_nothing() -> None:
    """Empty text means no column, which is not the same as not saying anything."""
    changed, _ = with_own_input(spec(), OwnInput(carry=""), ["record_id", "text", "lang", "source", "access"])
    assert changed.input.columns.carry == ()


def test_the_declared_limit_is_of_the_declared_input() -> None:
    """A limit that suits the bundled sample must not cut the user's million records."""
    present = ["record_id", "text", "lang", "source", "access"]
    assert with_own_input(spec(), OwnInput(uri="own.csv"), present)[0].input.limit is None
    assert with_own_input(spec(), OwnInput(limit=5), present)[0].input.limit == 5
    assert with_own_input(spec(), OwnInput(limit=5), present)[0].input.uri == "declared.jsonl"


def test_a_text_column_that_is_declared_as_carried() -> None:
    """`--text-column source` must not fail for naming a column twice that the user named once."""
    changed, _ = with_own_input(spec(), OwnInput(uri="own.csv", text_column="source"), ["record_id", "source", "lang"])
    assert changed.input.columns.carry == ("lang",)


def test_a_prompt_that_needs_a_column() -> None:
    """The prompt of this job speaks of the language: records without one cannot be asked about."""
    with pytest.raises(InvalidSpec, match=r"unknown column '\{lang\}'.*your input lacks it"):
        with_own_input(spec("{lang}: {text}"), OwnInput(uri="own.csv"), ["record_id", "text"])


def test_a_wrong_id_type() -> None:
    """Only the two types that are documented."""
    with pytest.raises(UserError, match="--id-type: must be one of string, integer, is 'int'"):
        with_own_input(spec(), OwnInput(id_type="int"), [])


def test_other_columns_make_another_version_of_the_same_recipe() -> None:
    """The recipe is what was declared: answers over other records are comparable."""
    changed, _ = with_own_input(spec(), OwnInput(uri="own.csv", id_column="no"), ["no", "text"])
    assert changed.recipe_digest == spec().recipe_digest
    assert version_name(changed, DIGEST) != version_name(spec(), DIGEST)
