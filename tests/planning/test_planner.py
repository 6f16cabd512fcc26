"""Planning: every record is planned for an answer or refused with class and reason, and the sums add up (I6)."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_assets.domain.errors import InputError
from batch_assets.domain.plan import SHARDS_MAX
from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from resources import scratch
from resources.planning.planner import plan_version
from resources.planning.tokens import ByteCounter
from resources.result_store.store import open_result_store
from resources.results.table_schema import DEAD_LETTER_SCHEMA
from tests.fixtures.sources import PlannedSource, SourceFolder, job_spec


def tickets(*records: tuple[str | None, str | None]) -> pl.DataFrame:
    return pl.DataFrame(records, schema={"record_id": pl.String, "text": pl.String}, orient="row")


def check_sums(source: PlannedSource) -> None:
    """Check I6 for a plan: answerable + refused = records, per shard and in all."""
    plan = source.planned.plan
    assert plan.records == source.snapshot.rows == sum(shard.records for shard in plan.shards)
    assert plan.refused == source.refused.height == sum(source.planned.failures.values())
    assert len(source.answerable()) + source.refused.height == plan.records
    for shard in plan.shards:
        assert shard.records == sum(piece.rows for piece in shard.slices)
        assert shard.refused == source.refused.filter(pl.col("shard") == shard.index).height
    assert source.refused.null_count()["reason"].item() == 0


FIRST_ROW = "row 0 of a.parquet, which is answered"
BLANK = [
    "",
    " ",
    "\t\r\n",
    "\u00a0\u3000\u2028",
    "\u200b\u200d\ufeff\u2060",
    "\x00",
    "\x85",
    "\U000e0041",
    "\u202e",
    None,
]


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_what_shows_nothing_is_empty(sources: SourceFolder, blank: str | None, name: str) -> None:
    """Unicode has two dozen characters that nobody sees; an answer about one of them would be made up."""
    frame = tickets(("1", blank), (blank, "x"), (blank, blank), ("4", "x"), ("5", f"{blank or ''}x"))
    sources.write(name, frame if name == "a.parquet" else frame.write_ndjson())
    source = sources.plan()
    assert source.failures == {0: "empty_text", 1: "missing_id", 2: "missing_id"}
    check_sums(source)


@pytest.mark.parametrize(
    "text", ["?", "0", "\u4f60", "\u0301", "\U0001f44d", "\ufffd", "\ue000", "\uffff", "null", "~"]
)
def test_one_visible_character_is_a_text(sources: SourceFolder, text: str) -> None:
    """Short is not empty."""
    sources.write("a.parquet", tickets((text, text)))
    assert [row[1:3] for row in sources.plan().answerable()] == [(text, text)]


def test_the_same_record_twice_is_answered_once(sources: SourceFolder) -> None:
    """Over files and shards: the first row is answered, and the others' reasons name it."""
    sources.write("a.parquet", tickets(("1", "x"), ("2", "y"), ("1", "x")))
    sources.write("b.parquet", tickets(("3", "z"), ("1", "x")))
    source = sources.plan(shard_size=2)
    assert source.failures == {2: "duplicate_id", 4: "duplicate_id"}
    assert source.refused["reason"].to_list() == [f"the same id and content as {FIRST_ROW}"] * 2
    assert source.refused.select("object_key", "object_row", "shard", "row").rows() == [
        ("a.parquet", 2, 1, 0),
        ("b.parquet", 1, 2, 0),
    ]
    check_sums(source)


def test_one_id_with_two_texts_is_answered_for_neither(sources: SourceFolder) -> None:
    """Which is meant, nobody can say; each names the others, and of many only three."""
    sources.write("a.parquet", tickets(("1", "x"), ("2", "y"), ("1", "X")))
    sources.write("b.parquet", tickets(*(("3", f"text {i}") for i in range(6))))
    source = sources.plan()
    assert source.failures == dict.fromkeys([0, 2, 3, 4, 5, 6, 7, 8], "conflicting_id")
    first, _, third, *_ = source.refused["reason"].to_list()
    assert first == "the same id with other content at row 2 of a.parquet"
    assert third == (
        "the same id with other content at row 1 of b.parquet, row 2 of b.parquet, row 3 of b.parquet and 2 more rows"
    )
    check_sums(source)


def test_text_formats_name_the_line_of_the_other_record(sources: SourceFolder) -> None:
    """An editor shows lines; blank ones count there."""
    sources.write("a.jsonl", '{"record_id": "1", "text": "x"}\n\n\n{"record_id": "1", "text": "x"}\n')
    assert sources.plan().refused["reason"].to_list() == [
        "the same id and content as line 1 of a.jsonl, which is answered"
    ]


@pytest.mark.parametrize("column", ["lang", "acl"])
def test_content_is_every_column_that_the_job_reads(sources: SourceFolder, column: str) -> None:
    """The same text with other access labels is another record: which labels hold?"""
    frame = pl.DataFrame({"record_id": ["1", "1"], "text": ["x", "x"], "lang": ["en", "en"], "acl": [["a"], ["a"]]})
    other = pl.Series(["en", "de"]) if column == "lang" else pl.Series([["a"], ["a", "b"]])
    sources.write("a.parquet", frame.with_columns(other.alias(column), unread=pl.Series([1, 2])))
    assert sources.plan(carry=("lang",), access="acl").failures == {0: "conflicting_id", 1: "conflicting_id"}
    assert sources.plan().failures == {1: "duplicate_id"}


def test_ids_that_differ_in_case_or_normalization_are_different(sources: SourceFolder) -> None:
    """Nothing is folded that the source keeps apart."""
    names = ["Ticket-ABC", "ticket-abc", "caf\u00e9", "cafe\u0301", "007", "7", "null", "1 ", "1", "../x", "a\0", "a"]
    sources.write("a.parquet", tickets(*((name, "x") for name in names)))
    assert [row.record_id for row in sources.plan().answerable()] == names


def test_a_broken_twin_makes_the_good_one_ambiguous(sources: SourceFolder) -> None:
    """An empty text under the same id is other content: perhaps it was emptied on purpose."""
    sources.write("a.parquet", tickets(("1", "x"), ("1", ""), ("2", "y"), (None, "z"), (None, "z")))
    assert sources.plan().failures == {0: "conflicting_id", 1: "empty_text", 3: "missing_id", 4: "missing_id"}


def test_over_length_is_counted_in_tokens_at_the_limit_itself(sources: SourceFolder) -> None:
    """The limit is inside; only texts with more bytes than that are tokenized at all."""

    class Words(ByteCounter):
        seen: list[str] = []  # noqa: RUF012

        def over(self, texts: list[str], limit: int) -> list[int | None]:  # type: ignore[override]
            self.seen.extend(texts)
            return [count if (count := len(text.split())) > limit else None for text in texts]

    counter = Words()
    texts = ["12345", "a b c d e", "a b c d e f", "abcdefghi"]
    sources.write("a.parquet", tickets(*((str(place), text) for place, text in enumerate(texts))))
    source = sources.plan(input_tokens_max=5, tokens=counter)
    assert source.failures == {2: "over_length"}
    assert source.refused["reason"].to_list() == ["the text has 6 tokens or more; limits.input_tokens_max is 5"]
    assert counter.seen == texts[1:]


def test_refused_records_carry_their_provenance(sources: SourceFolder) -> None:
    """They were never tried: no epoch, no attempt, nothing that the model said (I10)."""
    sources.write("a.parquet", tickets(("1", "x"), ("2", "")))
    source = sources.plan()
    assert pq.read_schema(io.BytesIO(source.planned.refused)).equals(DEAD_LETTER_SCHEMA)
    (letter,) = source.refused.to_dicts()
    assert letter == {
        **dict.fromkeys(DEAD_LETTER_SCHEMA.names),
        "record_id": "2",
        "object_key": "a.parquet",
        "object_row": 1,
        "failure": "empty_text",
        "reason": "column text is null, not there, or holds nothing visible",
        "job_version": source.planned.plan.version,
        "recipe_digest": source.spec.recipe_digest,
        "model_digest": source.spec.model.digest,
        "shard": 0,
        "row": 1,
        "epoch": 0,
        "worker": "planner",
        "attempts": 0,
        "infrastructure_losses": 0,
        "prompt_tokens": 0,
        "output_tokens": 0,
    }


def test_nothing_refused_is_an_empty_table_of_the_same_schema(sources: SourceFolder) -> None:
    """Readers need not ask whether there are any."""
    sources.write("a.parquet", tickets(("1", "x")))
    planned = sources.plan().planned
    assert pq.read_table(io.BytesIO(planned.refused)).schema.equals(DEAD_LETTER_SCHEMA)
    assert planned.failures == {}


def test_estimated_tokens_leave_out_refused_records(sources: SourceFolder) -> None:
    """Work that nobody does is no work; a quarter of the bytes is near enough for showing it."""
    sources.write("a.parquet", tickets(("1", "x" * 40), ("2", "x" * 40), ("1", "x" * 40), ("3", "\u4f60" * 4)))
    shards = sources.plan(shard_size=3).planned.plan.shards
    assert [(shard.records, shard.refused, shard.estimated_tokens) for shard in shards] == [(3, 1, 20), (1, 0, 3)]


def test_too_many_shards_are_refused_with_the_least_size_that_works(sources: SourceFolder) -> None:
    """Before anything is read."""
    rows = SHARDS_MAX * 10 + 1
    item = SnapshotObject(key="a", size_bytes=1, checksum="", rows=rows, data_uri="nowhere", converted=False)
    snapshot = Snapshot(uri="nowhere", objects=(item,))
    with pytest.raises(InputError, match="use shard_size 11"):
        plan_version(job_spec("nowhere", shard_size=10), snapshot, tokens=ByteCounter())


def test_very_many_rows_of_one_id(sources: SourceFolder) -> None:
    """An export that wrote `null` as every id: memory holds four places a family, not all of them."""
    rows = 100_000
    texts = [f"text {place}" for place in range(rows)]
    sources.write("a.parquet", pl.DataFrame({"record_id": ["null"] * rows, "text": texts}))
    source = sources.plan()
    assert source.planned.failures == {"conflicting_id": rows}
    assert source.refused["reason"][0].endswith("and 99996 more rows")


@pytest.fixture
def small_fills(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the planner put together very few rows at once."""
    monkeypatch.setattr(scratch, "FILL_BYTES", 1)
    return


@pytest.mark.usefixtures("small_fills")
def test_twins_are_found_over_any_distance(sources: SourceFolder) -> None:
    """Each batch is judged alone, ids over the whole snapshot."""
    for number in range(12):
        sources.write(f"{number:02}.parquet", tickets((f"{number}", "x"), (f"{number % 11}", "x")))
    failures = sources.plan(shard_size=3).planned.failures
    assert failures == {"duplicate_id": 12}


IDS = st.sampled_from(["a", "b", "c", "A", " ", "", None])
TEXTS = st.sampled_from(["x", "y", "", "\u200b", None, "long" * 10])


def model(records: list[tuple[str | None, str | None]]) -> dict[int, str]:
    """What planning must say, in the plainest words."""
    found: dict[int, str] = {}
    for row, (name, text) in enumerate(records):
        twins = [other for other in records if other[0] == name]
        if name is None or not name.strip():
            found[row] = "missing_id"
        elif text in {None, "", "\u200b"}:
            found[row] = "empty_text"
        elif text is not None and len(text) > 8:
            found[row] = "over_length"
        elif len(set(twins)) > 1:
            found[row] = "conflicting_id"
        elif records.index((name, text)) != row:
            found[row] = "duplicate_id"
    return found


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(IDS, TEXTS), min_size=1, max_size=12), st.integers(1, 5))
def test_planning_agrees_with_the_plainest_words_and_with_itself(
    records: list[tuple[str | None, str | None]], shard_size: int
) -> None:
    """Same snapshot, same digest, same plan, same bytes; the shard size changes shards and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        sources = SourceFolder(Path(folder), open_result_store(f"{folder}/_store"))
        sources.write("a.parquet", tickets(*records))
        source, again = (sources.plan(shard_size=shard_size, input_tokens_max=8) for _ in range(2))
        assert source.failures == model(records)
        assert (source.snapshot, source.planned) == (again.snapshot, again.planned)
        other = sources.plan(shard_size=7, input_tokens_max=8)
        assert (other.failures, other.planned.plan.version) == (source.failures, source.planned.plan.version)
        check_sums(source)


def test_dictionary_and_integer_columns_are_planned_as_they_are_read(sources: SourceFolder) -> None:
    """The planner and the worker see the same text of a column."""
    table = pa.table({"record_id": [7, 8, 7], "text": pa.array(["x", "y", "x"]).dictionary_encode()})
    pq.write_table(table, sources.folder / "a.parquet")
    source = sources.plan()
    assert source.failures == {2: "duplicate_id"}
    assert source.refused["record_id"].to_list() == ["7"]


def test_texts_that_a_weak_hash_takes_for_one_are_told_apart(sources: SourceFolder) -> None:
    """Incident: two texts that differ in every eighth byte had the same hash, and one of them was never answered."""
    ids, texts = ["1", "1"], ["date is0due in 1 and more", "date is5due in h and more"]
    sources.write("a.parquet", pl.DataFrame({"record_id": ids, "text": texts}))
    assert sources.plan().failures == {0: "conflicting_id", 1: "conflicting_id"}
