"""Which columns a source has, before a snapshot is taken."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from batch_assets.domain.errors import InputError
from resources.snapshots.peek import column_names


def test_parquet(tmp_path: Path) -> None:
    """The footer says it."""
    path = tmp_path / "a.parquet"
    pl.DataFrame({"id": ["1"], "body": ["x"]}).write_parquet(path)
    assert column_names(str(path), None) == ("id", "body")


def test_csv_with_a_byte_order_mark_and_quotes(tmp_path: Path) -> None:
    """Spreadsheets write both."""
    path = tmp_path / "a.csv"
    path.write_text('\ufeffid,"the ""body"""\n1,x\n')
    assert column_names(str(path), None) == ("id", 'the "body"')


def test_gzipped_json_lines_take_the_keys_of_several_lines(tmp_path: Path) -> None:
    """A key may be absent from the first line, and a line may be unreadable."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": 1}\nnot json\n[1]\n{"id": 2, "body": "x"}\n'))
    assert column_names(str(path), None) == ("id", "body")


def test_a_folder_is_read_by_its_first_usable_file(tmp_path: Path) -> None:
    """Files of no known format are ignored, as the snapshot does."""
    (tmp_path / "README.txt").write_text("hello")
    (tmp_path / "b.csv").write_text("id,body\n")
    assert column_names(str(tmp_path), None) == ("id", "body")


def test_a_folder_without_a_usable_file(tmp_path: Path) -> None:
    """The snapshot explains that; there is nothing to choose from here."""
    assert column_names(str(tmp_path), None) == ()


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz", "a.jsonl.gz"])
def test_a_file_that_is_not_what_its_name_says(tmp_path: Path, name: str) -> None:
    """Garbage is refused by the file's name, not with a traceback."""
    (tmp_path / name).write_bytes(b"garbage")
    with pytest.raises(InputError, match=name):
        column_names(str(tmp_path), None)


def test_a_missing_file(tmp_path: Path) -> None:
    """A mistyped path is the commonest mistake."""
    with pytest.raises(InputError, match="there is no file or folder"):
        column_names(str(tmp_path / "nothing.csv"), None)
