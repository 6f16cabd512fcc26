"""Is a source still what the snapshot recorded? Checked before a worker reads from it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from batch_assets.domain.errors import InputError, SnapshotChanged
from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from resources.result_store.config import S3Config
from resources.snapshots.place import SourceFile, is_s3, local_path, stat


def checksum_of(file: SourceFile) -> str:
    """Return `etag:<value>` where the store gives one, else `sha256:<hex>` of the bytes.

    A local file is read once a process, as long as its size and modification time stay.

    Raises:
        OSError: it cannot be read. InputError: the store gives no etag.
    """
    if file.etag is not None:
        return f"etag:{file.etag}"
    if is_s3(file.uri):
        raise InputError(f"{file.uri}: the store gives no etag, so a change of the object could not be noticed")
    return _sha256(str(local_path(file.uri)), file.size_bytes, file.mtime_ns)


def verify_object(item: SnapshotObject, s3: S3Config | None = None) -> None:
    """Check that the Parquet that workers read is the one in the snapshot: size first, then checksum.

    A converted copy is immutable and named by its source's checksum, and its pages carry their own checksums: only
    that it is there is checked.

    Raises:
        SnapshotChanged: it is gone or different; the message names it.
    """
    try:
        present = stat(item.data_uri, s3)
        if item.converted:
            return
        if present.size_bytes != item.size_bytes:
            raise SnapshotChanged(
                f"{item.data_uri}: has {present.size_bytes} bytes, the snapshot recorded {item.size_bytes}"
            )
        if checksum_of(present) != item.checksum:
            raise SnapshotChanged(f"{item.data_uri}: its content is not what the snapshot recorded ({item.checksum})")
    except FileNotFoundError:
        raise SnapshotChanged(f"{item.data_uri}: is gone") from None
    except PermissionError as error:
        raise SnapshotChanged(f"{item.data_uri}: cannot be read any more ({error.strerror})") from None


def verify_snapshot(snapshot: Snapshot, s3: S3Config | None = None) -> None:
    """Check every object that has rows, as `verify_object` does."""
    for item in snapshot.objects:
        if item.rows:
            verify_object(item, s3)


@lru_cache(maxsize=4096)
def _sha256(path: str, size_bytes: int, mtime_ns: int) -> str:  # noqa: ARG001  # size and time are the cache's key
    with Path(path).open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
