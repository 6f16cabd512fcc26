"""Taking a snapshot: list the source, check it, record every object; text formats are converted to Parquet once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from batch_assets.domain.errors import InputError
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import Snapshot, SnapshotObject, limit_rows
from batch_assets.domain.spec import InputSpec
from resources.result_store.config import S3Config
from resources.snapshots import parquet
from resources.snapshots.convert import Converted, convert
from resources.snapshots.formats import ENDINGS, Format, format_of
from resources.snapshots.parquet import Inspected
from resources.snapshots.peek import keys_of
from resources.snapshots.place import SourceFile, is_s3, list_files, local_path
from resources.snapshots.verify import checksum_of

_READERS = 8  # files looked at at once: footers and checksums wait for disks and networks
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A snapshot and how it was made: the source's format, its files, and one sentence a note for the user."""

    snapshot: Snapshot
    format: Format
    files: int
    notes: tuple[str, ...]


def take_snapshot(source: InputSpec, store: ObjectStore, *, s3: S3Config | None = None) -> Taken:
    """Record what `source` is now. Taking it twice of the same content gives the same digest.

    CSV and JSON lines are converted into `store`, under `snapshots/`; `s3` is needed for an `s3://` source or store.

    Raises:
        InputError: it cannot be a snapshot: missing, empty, corrupt, of mixed formats or types, without a column.
    """
    files, kind, notes = _usable_files(source, s3)
    if kind is Format.PARQUET:
        objects, more = _take_parquet(files, source, s3)
    else:
        objects, more = _take_text(files, source, store, s3)
    if not objects:
        raise InputError(f"input.uri: {source.uri} holds no records ({_few([file.key for file in files])})")
    uri = source.uri if is_s3(source.uri) else str(local_path(source.uri))
    return Taken(
        snapshot=Snapshot(uri=uri, objects=limit_rows(objects, source.limit)),
        format=kind,
        files=len(files),
        notes=(*notes, *more),
    )


def _usable_files(source: InputSpec, s3: S3Config | None) -> tuple[list[SourceFile], Format, list[str]]:
    listed = list_files(source.uri, s3)
    usable = {file.key: (file, kind) for file in listed if (kind := format_of(file.key)) is not None}
    others = [file.key for file in listed if file.key not in usable]
    if not usable:
        endings = ", ".join(ENDINGS)
        seen = f"; there is {_few(others)}" if others else ""
        raise InputError(f"input.uri: no file at {source.uri} ends in {endings} (the text ones may end in .gz){seen}")
    first_key, (_, first_kind) = next(iter(usable.items()))
    for key, (_, kind) in usable.items():
        if kind is not first_kind:
            raise InputError(
                f"input.uri: {source.uri} mixes formats: {first_key} is {first_kind}, {key} is {kind}; "
                "a source has one format"
            )
    notes = [f"ignored, of no known format: {_few(others)}"] if others else []
    return [file for file, _ in usable.values()], first_kind, notes


def _take_parquet(
    files: Sequence[SourceFile], source: InputSpec, s3: S3Config | None
) -> tuple[list[SnapshotObject], list[str]]:
    def look(file: SourceFile) -> tuple[SourceFile, Inspected, str]:
        inspected = parquet.inspect(file, source.columns, s3)
        return file, inspected, _checksum(file)

    objects: list[SnapshotObject] = []
    first: tuple[str, Inspected] | None = None
    empty: list[str] = []
    rows = 0
    for file, inspected, checksum in _each(look, files, in_order=source.limit is not None):
        first = first or (file.key, inspected)
        parquet.check_same(*first, file.key, inspected)
        rows += inspected.rows
        if not inspected.rows:
            empty.append(file.key)
            continue
        objects.append(
            SnapshotObject(
                key=file.key,
                size_bytes=file.size_bytes,
                checksum=checksum,
                rows=inspected.rows,
                data_uri=file.uri,
                converted=False,
            )
        )
        if source.limit is not None and rows >= source.limit:
            break
    notes = parquet.notes(first[1], source.columns) if first else []
    return objects, [*notes, *_empty_note(empty)]


def _take_text(
    files: Sequence[SourceFile], source: InputSpec, store: ObjectStore, s3: S3Config | None
) -> tuple[list[SnapshotObject], list[str]]:
    objects: list[SnapshotObject] = []
    empty: list[str] = []
    blank_lines = 0
    for file in files:
        rows = sum(item.rows for item in objects)
        if source.limit is not None and rows >= source.limit:
            break
        left = None if source.limit is None else source.limit - rows
        converted = convert(file, _checksum(file), source.columns, left, store, s3)
        _require_columns(file, converted, s3)
        objects += converted.objects
        blank_lines += converted.blank_lines
        if not converted.objects:
            empty.append(file.key)
    notes = [f"{blank_lines} blank lines are no records"] if blank_lines else []
    return objects, [*notes, *_empty_note(empty)]


def _require_columns(file: SourceFile, converted: Converted, s3: S3Config | None) -> None:
    """Refuse JSON lines that have no such key, as Parquet and CSV without such a column are refused.

    One record without its id is that record's fault; all of them are the declaration's.
    """
    if not converted.blank_columns:
        return
    keys = keys_of(file, s3)
    absent = [name for name in converted.blank_columns if name not in keys]
    if keys and absent:
        raise InputError(
            f"{file.key}: no record has the key {' or '.join(map(repr, absent))}; "
            f"there are {', '.join(map(repr, keys))} (input.columns names the keys)"
        )


def _each(
    look: Callable[[SourceFile], tuple[SourceFile, Inspected, str]], files: Sequence[SourceFile], *, in_order: bool
) -> Iterator[tuple[SourceFile, Inspected, str]]:
    """Look at each file, several at once unless the caller may stop early; results come in the files' order."""
    if in_order or len(files) == 1:
        yield from map(look, files)
        return
    with ThreadPoolExecutor(_READERS) as pool:
        yield from pool.map(look, files)


def _checksum(file: SourceFile) -> str:
    try:
        return checksum_of(file)
    except OSError as error:
        raise InputError(f"{file.key}: cannot be read ({error.strerror})") from None


def _empty_note(keys: Sequence[str]) -> list[str]:
    return [f"without any record, so left out: {_few(keys)}"] if keys else []


def _few(keys: Sequence[str]) -> str:
    shown = ", ".join(keys[:_NAMED])
    return f"{shown} and {len(keys) - _NAMED} more" if len(keys) > _NAMED else shown
