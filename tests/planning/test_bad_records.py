"""Every line of the two files of nasty records is accounted for: its class, and that its neighbours are answered."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from resources.planning.tokens import TokenCounter
from tests.fixtures.sources import SourceFolder
from tests.planning.test_planner import check_sums

NASTY = {  # by the record's id, or by its line where it has none that can be stored
    "nasty-001": "empty_text",
    "nasty-003": "empty_text",
    "nasty-005": "empty_text",
    "nasty-011": "invalid_text",
    "nasty-013": "invalid_text",
    "nasty-029": "over_length",
    "nasty-031": "over_length",
    "nasty-095": "invalid_text",
    "line 31": "missing_id",
    " ": "missing_id",
    "dup-1": "duplicate_id",
    "dup-2": "conflicting_id",
    "line 41": "invalid_id",
    "line 42": "invalid_id",
    "line 43": "invalid_id",
}
INTEGER_IDS = {"line 41", "line 42"}
BYTES_ANSWERED = {1, 2, 20}
BYTES_BLANK = {3, 4}


def copy(sources: SourceFolder, path: Path) -> None:
    sources.write(path.name, path.read_bytes())


def named(refused: pl.DataFrame) -> dict[str, str]:
    names = [
        row["record_id"] if row["record_id"] is not None else f"line {row['row'] + 1}" for row in refused.to_dicts()
    ]
    return dict(zip(names, refused["failure"].to_list(), strict=True))


def test_each_nasty_record_is_answered_or_refused(sources: SourceFolder, shared_data: Path, small_model: Path) -> None:
    """55 lines: 16 refused (dup-2 twice), the other 39 are tickets like any other, whatever their text tries."""
    copy(sources, shared_data / "nasty.jsonl")
    source = sources.plan(carry=("updated_at",), tokens=TokenCounter.for_folder(small_model))
    assert named(source.refused) == NASTY
    assert source.refused.height == 16
    answered = source.answerable()
    assert len(answered) == 55 - 16
    ids = {row.record_id for row in answered}
    assert {"dup-1", "Ticket-ABC", "ticket-abc", "caf\u00e9-1", "cafe\u0301-1", "007", "null", "id\0tail"} <= ids
    check_sums(source)


def test_nasty_texts_reach_the_prompt_unchanged(sources: SourceFolder, shared_data: Path) -> None:
    """Control characters, template tokens, formulas: data, character for character."""
    path = shared_data / "nasty.jsonl"
    copy(sources, path)
    texts = {}
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            value = json.loads(line)
            texts[json.dumps(value.get("record_id"))] = value.get("text")
    for row in sources.plan(input_tokens_max=10**6).answerable():
        assert row.text == texts[json.dumps(row.record_id)]


def test_declared_integer_ids_are_answered(sources: SourceFolder, shared_data: Path, small_model: Path) -> None:
    """12345 and 9007199254740993, exactly; the boolean stays refused."""
    copy(sources, shared_data / "nasty.jsonl")
    source = sources.plan(id_type="integer", tokens=TokenCounter.for_folder(small_model))
    assert named(source.refused) == {name: failure for name, failure in NASTY.items() if name not in INTEGER_IDS}
    assert {"12345", "9007199254740993"} <= {row.record_id for row in source.answerable()}


def test_each_line_of_bad_bytes_is_answered_unreadable_or_blank(sources: SourceFolder, shared_data: Path) -> None:
    """20 lines: 3 records, 2 blank lines, and 15 dead letters that say their line."""
    copy(sources, shared_data / "nasty_bytes.jsonl")
    why = pl.read_csv(shared_data / "nasty_bytes_why.csv")
    source = sources.plan()
    lines = [int(reason.split(":")[0].removeprefix("line ")) for reason in source.refused["reason"]]
    assert set(lines) == set(why["line"].to_list()) - BYTES_ANSWERED - BYTES_BLANK
    assert source.planned.failures == {"unreadable": 15}
    assert [row.record_id for row in source.answerable()] == ["bytes-01", "bytes-02", "bytes-20"]
    assert source.taken.notes == ("2 blank lines are no records",)
    check_sums(source)


MIX = {
    "mix-empty": ('{"record_id": "mix-empty", "text": ""}', "empty_text"),
    "mix-null": ('{"record_id": "mix-null", "text": null}', "empty_text"),
    "nasty-005": (None, "empty_text"),
    "mix-nul": (r'{"record_id": "mix-nul", "text": "please \u0000\u0000 refund"}', None),
    "nasty-011": (None, "invalid_text"),
    "nasty-031": (None, "over_length"),
    "nasty-049": (None, None),
    "mix-number": ('{"record_id": "mix-number", "text": 5}', "invalid_text"),
    "nasty-095": (None, "invalid_text"),
}
MIX_WITHOUT_ID = ['{"record_id": null, "text": "null id"}', '{"text": "no id"}']


def test_twelve_nasty_records_among_256_real_ones(sources: SourceFolder, shared_data: Path, small_model: Path) -> None:
    """No bad record takes a good one with it: 256 + 2 + one of the pair are answered, 10 + the other are not."""
    real = (
        pl.read_parquet(shared_data / "support_small.parquet", columns=["record_id", "text"])
        .sort("record_id")
        .head(256)
    )
    nasty = {}
    for line in (shared_data / "nasty.jsonl").read_text(encoding="utf-8", errors="strict").split("\n"):
        if line.strip():
            nasty.setdefault(json.loads(line).get("record_id") if '"record_id": "' in line else line, []).append(line)
    bad = [line or nasty[name][0] for name, (line, _) in MIX.items()]
    lines = [*real.write_ndjson().splitlines(), *bad, *MIX_WITHOUT_ID, *nasty["dup-1"]]
    sources.write("mix.jsonl", "\n".join(lines).encode())
    source = sources.plan(tokens=TokenCounter.for_folder(small_model), shard_size=100)
    expected = {256 + place: failure for place, (_, failure) in enumerate(MIX.values()) if failure}
    first_without_id = 256 + len(MIX)
    expected |= {first_without_id: "missing_id", first_without_id + 1: "missing_id", len(lines) - 1: "duplicate_id"}
    assert source.failures == expected
    answered = {row.record_id for row in source.answerable()}
    assert answered == {*real["record_id"].to_list(), "mix-nul", "nasty-049", "dup-1"}
    check_sums(source)


def test_real_records_are_all_answerable(sources: SourceFolder, shared_data: Path, small_model: Path) -> None:
    """10,000 of them, in 13 languages: nothing ordinary is refused but what is over the limit."""
    path = shared_data / "support_mixed.parquet"
    sources.write(path.name, path.read_bytes())
    counter = TokenCounter.for_folder(small_model)
    source = sources.plan(carry=("label", "lang", "source", "updated_at"), tokens=counter)
    assert set(source.planned.failures) <= {"over_length"}
    long = pl.read_parquet(path).with_row_index("place").filter(pl.col("text").str.len_bytes() > 1_500)
    counts = counter.over(long["text"].to_list(), 2_048)
    over = [place for place, count in zip(long["place"].to_list(), counts, strict=True) if count is not None]
    assert sorted(source.failures) == over
    check_sums(source)


@pytest.mark.parametrize("name", ["support_small.parquet", "support_changed.parquet"])
def test_the_small_real_sources_have_no_bad_record(sources: SourceFolder, shared_data: Path, name: str) -> None:
    """The demonstration and its night are clean."""
    copy(sources, shared_data / name)
    assert sources.plan(input_tokens_max=10**6).planned.failures == {}
