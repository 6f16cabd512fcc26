"""Taking snapshots: what a source may be, what is refused by name, and that the digest names the content."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import polars as pl
import pytest

from batch_assets.domain.errors import InputError
from resources.snapshots import convert
from tests.fixtures.sources import SourceFolder


def records(*ids: str) -> pl.DataFrame:
    return pl.DataFrame({"record_id": ids, "text": [f"text of {name}" for name in ids]})


def lines(*ids: str) -> str:
    return "".join(f'{{"record_id": "{name}", "text": "text of {name}"}}\n' for name in ids)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl", "a.ndjson", "a.csv.gz", "a.jsonl.gz", "A.CSV"])
def test_every_format_gives_the_same_records(sources: SourceFolder, name: str) -> None:
    """Wherever records come from, the worker sees the same rows."""
    text = "record_id,text\n1,text of 1\n2,text of 2\n" if "csv" in name.lower() else lines("1", "2")
    content = records("1", "2") if name == "a.parquet" else text.encode()
    sources.write(name, gzip.compress(content) if name.endswith(".gz") and isinstance(content, bytes) else content)
    rows = sources.plan(name).answerable()
    assert [(row.row, row.record_id, row.text) for row in rows] == [(0, "1", "text of 1"), (1, "2", "text of 2")]


def test_a_folder_is_read_by_key_without_hidden_files(sources: SourceFolder) -> None:
    """Spark leaves `_SUCCESS` and `_temporary` behind; a listing's own order is luck."""
    for name in ("b.parquet", "a/z.parquet", "a.parquet", "_temporary/x.parquet", ".hidden.parquet", "a/_x.parquet"):
        sources.write(name, records(name))
    sources.write("_SUCCESS", "")
    sources.write("LICENSE", "free")
    taken = sources.take()
    assert [item.key for item in taken.snapshot.objects] == ["a.parquet", "a/z.parquet", "b.parquet"]
    assert taken.notes == ("ignored, of no known format: LICENSE",)


def test_the_digest_names_the_content_not_the_place(sources: SourceFolder, tmp_path: Path) -> None:
    """The same files elsewhere are the same snapshot; one changed byte is another one."""
    sources.write("a.jsonl", lines("1"))
    first = sources.take().snapshot.digest
    elsewhere = tmp_path / "elsewhere"
    sources.folder.rename(elsewhere)
    sources.folder.mkdir()
    sources.write("a.jsonl", lines("1"))
    assert sources.take().snapshot.digest == first
    sources.write("a.jsonl", lines("2"))
    assert sources.take().snapshot.digest != first


def test_text_is_converted_once(sources: SourceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second snapshot of a source reads the manifest of the first conversion."""
    sources.write("a.jsonl", lines("1"))
    first = sources.take()
    monkeypatch.setattr(convert, "_write_all", None)  # a second conversion would fail
    assert sources.take() == first


def test_a_large_text_source_becomes_several_objects(sources: SourceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded because an object is put when it is full; the cuts depend on the source alone."""
    monkeypatch.setattr(convert, "GROUP_BYTES", 200)
    monkeypatch.setattr(convert, "CHUNK_BYTES", 1_000)
    path = sources.write("a.jsonl", "\n" + lines(*map(str, range(100))))
    source = sources.plan()
    assert [item.key for item in source.snapshot.objects][:3] == ["a.jsonl", "a.jsonl#1", "a.jsonl#2"]
    assert sum(item.size_bytes for item in source.snapshot.objects) == path.stat().st_size
    assert [row.record_id for row in source.answerable()] == list(map(str, range(100)))
    assert source.taken.notes == ("1 blank lines are no records",)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("limit", [1, 3, 4, 99])
def test_limit_takes_the_first_rows(sources: SourceFolder, name: str, limit: int) -> None:
    """Over several files, and the same each time."""
    for folder, ids in (("x", ("1", "2", "3")), ("y", ("4", "5"))):
        text = "record_id,text\n" + "".join(f"{i},text\n" for i in ids) if name == "a.csv" else lines(*ids)
        sources.write(f"{folder}/{name}", records(*ids) if name == "a.parquet" else text)
    source = sources.plan(limit=limit)
    assert [row.record_id for row in source.answerable()] == ["1", "2", "3", "4", "5"][:limit]
    assert sources.take(limit=limit).snapshot == source.snapshot


def test_limit_reads_no_further(sources: SourceFolder) -> None:
    """A first look at a large folder does not depend on its last file."""
    sources.write("a.parquet", records("1", "2"))
    sources.write("b.parquet", b"not parquet")
    assert sources.take(limit=2).snapshot.rows == 2


def test_a_missing_path_is_refused_by_name(sources: SourceFolder) -> None:
    """A typing mistake is no traceback."""
    with pytest.raises(InputError, match=r"input\.uri: there is no file or folder .*nowhere\.csv"):
        sources.take("nowhere.csv")


@pytest.mark.parametrize("name", ["notes.txt", "data.json", "data.parquet.gz"])
def test_a_source_of_no_known_format_is_refused(sources: SourceFolder, name: str) -> None:
    """The message says which endings are known and what is there."""
    sources.write(name, "x")
    for uri in ("", name):
        with pytest.raises(InputError, match=rf"ends in \.parquet, \.csv, \.jsonl, \.ndjson .*there is {name}"):
            sources.take(uri)


def test_an_empty_folder_is_refused(sources: SourceFolder) -> None:
    """So is one with hidden files alone."""
    sources.write("_SUCCESS", "")
    with pytest.raises(InputError, match=r"no file at .* ends in"):
        sources.take()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", ""),
        ("a.jsonl", "\n \n"),
        ("a.csv", "record_id,text\n"),
        ("a.parquet", records()),
        ("a.jsonl.gz", gzip.compress(b"")),
    ],
)
def test_a_source_without_records_is_refused(
    sources: SourceFolder, name: str, content: str | bytes | pl.DataFrame
) -> None:
    """A job version over nothing would publish nothing as `current`."""
    if isinstance(content, pl.DataFrame):
        content = content.cast(pl.String)
    sources.write(name, content)
    with pytest.raises(InputError, match=f"holds no records.*{name}"):
        sources.take()


def test_empty_files_among_others_are_left_out_and_said(sources: SourceFolder) -> None:
    """Writers of partitioned folders leave them."""
    sources.write("a.jsonl", "")
    sources.write("b.jsonl", lines("1"))
    taken = sources.take()
    assert [item.key for item in taken.snapshot.objects] == ["b.jsonl"]
    assert taken.notes == ("without any record, so left out: a.jsonl",)


def test_mixed_formats_are_refused_naming_two_files(sources: SourceFolder) -> None:
    """Which of them is the data, nobody can say."""
    sources.write("a.csv", "record_id,text\n1,x\n")
    sources.write("b.jsonl", lines("1"))
    with pytest.raises(InputError, match=r"mixes formats: a\.csv is csv, b\.jsonl is jsonl"):
        sources.take()


def test_parquet_files_of_different_types_are_refused_naming_files_and_columns(sources: SourceFolder) -> None:
    """The id of one day's export is a number, of the other day's a text: 7 and "007"."""
    sources.write("a.parquet", records("1"))
    sources.write("b.parquet", pl.DataFrame({"record_id": [1], "text": ["x"]}))
    with pytest.raises(
        InputError, match=r"a\.parquet and b\.parquet have different types: record_id \((large_)?string"
    ):
        sources.take()


def test_columns_that_the_job_does_not_read_may_differ(sources: SourceFolder) -> None:
    """They are nobody's business here."""
    sources.write("a.parquet", records("1"))
    sources.write("b.parquet", records("2").with_columns(extra=1))
    assert sources.take().snapshot.rows == 2


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
@pytest.mark.parametrize("cut", [-9, 12, 3])
def test_a_cut_gzip_is_refused_by_name(sources: SourceFolder, name: str, cut: int) -> None:
    """Half a download ends in the middle: the records that are missing would otherwise never be missed."""
    text = "record_id,text\n1,x\n" if "csv" in name else lines("1", "2")
    sources.write(name, gzip.compress(text.encode())[:cut])
    with pytest.raises(InputError, match=rf"{name}: not readable gzip, or cut off"):
        sources.take()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_refused_by_name(sources: SourceFolder) -> None:
    """Permission is the user's to mend."""
    sources.write("a.jsonl", lines("1")).chmod(0)
    with pytest.raises(InputError, match=r"a\.jsonl: cannot be read"):
        sources.take()


def test_a_file_that_grows_while_it_is_read_is_refused(sources: SourceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checksum would name other bytes than its records."""
    path = sources.write("a.jsonl", lines("1"))
    original = convert.open_bytes

    def write_meanwhile(*arguments: object) -> object:
        path.write_text(lines("1", "2"))
        return original(*arguments)

    monkeypatch.setattr(convert, "open_bytes", write_meanwhile)
    with pytest.raises(InputError, match=r"a\.jsonl: changed while it was read"):
        sources.take()


def test_json_lines_without_the_declared_key_are_refused_by_name(sources: SourceFolder) -> None:
    """Incident: a typing error in `columns.id` made a million dead letters, and the empty version passed its gates."""
    sources.write("tickets.jsonl", b'{"id": "1", "text": "a"}\n{"id": "2", "text": "b"}\n')
    with pytest.raises(InputError, match=r"tickets\.jsonl: no record has the key 'record_id'; there are 'id', 'text'"):
        sources.take("tickets.jsonl")


def test_a_key_that_is_there_but_null_is_each_records_own_fault(sources: SourceFolder) -> None:
    """Every id null: the records are refused at planning, one by one, with their reason."""
    sources.write("tickets.jsonl", b'{"record_id": null, "text": "a"}\nnot json\n')
    assert sources.take("tickets.jsonl").snapshot.rows == 2
