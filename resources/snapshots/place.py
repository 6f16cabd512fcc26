"""Where a source lies: listing and opening the files of a path or an `s3://` prefix, one interface for both."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from batch_assets.domain.errors import InputError, InvalidSettings, StoreUnavailable
from resources.result_store.aws import S3Access, check_bucket, open_bucket, resolve
from resources.result_store.config import S3Config
from resources.snapshots.formats import format_of

_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file: `key` relative to the source's root, `uri` opens it, `etag` is None for local files."""

    key: str
    uri: str
    size_bytes: int
    etag: str | None = None
    mtime_ns: int = 0


def list_files(uri: str, s3: S3Config | None) -> list[SourceFile]:
    """Return the visible files of a file, folder or prefix, by key. Names that begin with `.` or `_` are hidden.

    Raises:
        InputError: there is nothing at `uri`, or it cannot be read.
    """
    found = _list_s3(uri, s3) if is_s3(uri) else _list_local(local_path(uri))
    return sorted(found, key=lambda item: item.key)


def is_s3(uri: str) -> bool:
    """Say whether `uri` is in an object store rather than on this machine."""
    return uri.startswith("s3://")


def local_path(uri: str) -> Path:
    """Return the absolute path of a local uri (`file://` may be said)."""
    return Path(uri.removeprefix("file://")).expanduser().absolute()


def open_bytes(uri: str, s3: S3Config | None) -> BinaryIO:
    """Open a file for reading forwards or at any place; the caller closes it."""
    if not is_s3(uri):
        return local_path(uri).open("rb", buffering=_BUFFER_BYTES)
    bucket, key = _open_bucket(uri, s3)
    with _translated(uri):
        return io.BufferedReader(_ObjectReader(obstore.open_reader(bucket, key), uri), _BUFFER_BYTES)


def stat(uri: str, s3: S3Config | None) -> SourceFile:
    """Return a file's present size and, in an object store, its etag.

    Raises:
        FileNotFoundError: it is not there.
    """
    if not is_s3(uri):
        path = local_path(uri)
        return _local_file(path, path.parent)
    bucket, key = _open_bucket(uri, s3)
    with _translated(uri):
        meta = bucket.head(key)
    return SourceFile(key=key, uri=uri, size_bytes=meta["size"], etag=_etag(meta))


def _list_local(path: Path) -> list[SourceFile]:
    if path.is_file():
        return [_local_file(path, path.parent)]
    if not path.is_dir():
        raise InputError(f"input.uri: there is no file or folder {path}")
    found = []
    for folder, names, files in os.walk(path, onerror=_refuse_folder):
        names[:] = [name for name in names if not name.startswith((".", "_"))]
        found += [_local_file(Path(folder, name), path) for name in files if not name.startswith((".", "_"))]
    return found


def _refuse_folder(error: OSError) -> None:
    raise InputError(f"{error.filename}: cannot be listed ({error.strerror})")


def _local_file(path: Path, root: Path) -> SourceFile:
    found = path.stat()
    key = path.relative_to(root).as_posix()
    return SourceFile(key=key, uri=str(path), size_bytes=found.st_size, mtime_ns=found.st_mtime_ns)


def _list_s3(uri: str, s3: S3Config | None) -> list[SourceFile]:
    name, prefix = _split(uri)
    try:
        check_bucket(_access(s3), name, prefix)
    except InvalidSettings as error:
        raise InputError(f"input.uri: {error}") from None
    bucket = _bucket(name, s3)
    with _translated(uri):
        items = [item for page in bucket.list(prefix or None) for item in page] or _one_object(bucket, prefix)
    found = []
    for item in items:
        key = item["path"].removeprefix(prefix).lstrip("/") or item["path"].rpartition("/")[2]
        hidden = any(part.startswith((".", "_")) for part in key.split("/"))
        if not hidden and (item["size"] or format_of(key)):  # consoles make empty objects to stand for folders
            uri_of = f"s3://{name}/{item['path']}"
            found.append(SourceFile(key=key, uri=uri_of, size_bytes=item["size"], etag=_etag(item)))
    return found


def _one_object(bucket: S3Store, key: str) -> list[Any]:
    """Return the object named exactly `key`: a listing shows what is below a prefix, not the prefix itself."""
    try:
        return [bucket.head(key)] if key else []
    except (FileNotFoundError, NotFoundError):
        return []


def _etag(meta: Any) -> str | None:
    return meta["e_tag"].strip('"') if meta.get("e_tag") else None


def _open_bucket(uri: str, s3: S3Config | None) -> tuple[S3Store, str]:
    name, key = _split(uri)
    return _bucket(name, s3), key


def _split(uri: str) -> tuple[str, str]:
    """Return the bucket and the key or prefix of an `s3://` uri."""
    name, _, key = uri.removeprefix("s3://").partition("/")
    return name, key.strip("/")


@lru_cache(maxsize=16)
def _access(s3: S3Config | None) -> S3Access:
    return resolve(s3)


@lru_cache(maxsize=64)
def _bucket(name: str, s3: S3Config | None) -> S3Store:
    return open_bucket(_access(s3), name)


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """Tell an object that is not there from a store that does not answer or refuses, after obstore's own retries."""
    try:
        yield
    except FileNotFoundError:
        raise
    except NotFoundError as error:
        raise FileNotFoundError(uri) from error
    except (BaseError, OSError) as error:
        raise StoreUnavailable(f"cannot read {uri}: {error}") from error


class _ObjectReader(io.RawIOBase):
    """obstore's reader as a raw stream: gzip and Arrow ask for the io protocol."""

    def __init__(self, reader: Any, uri: str) -> None:
        self._reader = reader
        self._uri = uri

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def readinto(self, buffer: Any) -> int:
        with _translated(self._uri):
            data = self._reader.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
