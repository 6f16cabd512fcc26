"""One file of results or dead letters, for people: Parquet, CSV or JSON lines; whole or not there."""

from __future__ import annotations

import base64
import errno
import os
from pathlib import Path

import polars as pl

from batch_assets.domain.errors import UserError

FORMATS = (".parquet", ".csv", ".jsonl")


def write_results(frame: pl.LazyFrame, out: Path) -> None:
    """Write a frame as one file, a row a record; the ending of `out` names the format.

    The file appears whole under its name, or not at all; an older one is replaced. CSV has no lists: they become JSON
    text there. Bytes (what a model said in a dead letter) become text where they are UTF-8, else `base64:` and base64.

    Raises:
        UserError: the ending is none of the formats, or the folder cannot be written.
    """
    check_format(out)
    staged = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        _make_folder(out)
        _write(frame, staged, out.suffix)
        staged.replace(out)
    except FileNotFoundError:
        raise  # the folder is there: what is not is an object that is read
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror or error}") from error
    finally:
        staged.unlink(missing_ok=True)


def _make_folder(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
            raise PermissionError(errno.EACCES, "no folder that can be written")
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror or error}") from error


def check_format(out: Path) -> None:
    """Check a file's name before work is spent on what is to be in it.

    Raises:
        UserError: the ending is none of the formats.
    """
    if out.suffix not in FORMATS:
        raise UserError(f"{out.name}: the name must end in {', '.join(FORMATS)}")


def _write(frame: pl.LazyFrame, path: Path, ending: str) -> None:
    if ending == ".parquet":
        frame.sink_parquet(path, compression="zstd")
    elif ending == ".csv":
        _flat(frame, lists=True).sink_csv(path)
    else:
        _flat(frame, lists=False).sink_ndjson(path)


def _flat(frame: pl.LazyFrame, *, lists: bool) -> pl.LazyFrame:
    columns = []
    for name, kind in frame.collect_schema().items():
        column = pl.col(name)
        if kind == pl.Binary:
            columns.append(column.map_elements(_as_text, return_dtype=pl.String))
        elif lists and isinstance(kind, pl.List):
            # Polars writes JSON of structs only: {"v":[...]} without its wrapping is the list.
            text = pl.struct(column.alias("v")).struct.json_encode().str.slice(5).str.head(-1)
            columns.append(pl.when(column.is_not_null()).then(text).alias(name))
    return frame.with_columns(columns)


def _as_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()
