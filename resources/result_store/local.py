"""Creating a file so that nobody ever sees a part of it, whatever dies, and so that it survives a power cut.

obstore's own local write is atomic, too, but it does not sync (after a power cut a file may stand empty under its final
name, and would then be in the way for good), and it says "disk full" only in the text of its error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from batch_assets.domain.errors import InvalidSettings, ObjectConflict, StoreFull, StoreUnavailable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def create_file(root: Path, key: str, data: bytes) -> None:
    """Write `data` to `root / key`, whole or not at all.

    Raises:
        FileExistsError: the file stands. StoreFull: no room. StoreUnavailable: any other refusal of the system.
        ObjectConflict: a folder stands under the key, or a file where the key needs a folder.
    """
    path = root / key
    with _explained(path):
        if path.exists():  # nothing to write: spare the disk
            raise FileExistsError(path)
        _make_folders(path.parent)
        staged = path.with_name(f"#{secrets.randbits(60)}")  # a name that listings leave out (`checked_key`)
        try:
            _write_synced(staged, data)
            os.link(staged, path)  # unlike a rename, it fails if the name is taken
        finally:
            staged.unlink(missing_ok=True)
        _sync_folder(path.parent)


def prepare_folder(root: Path) -> Path:
    """Make the store's root folder if need be, and prove that objects can be created in it.

    Raises:
        InvalidSettings: they cannot; the message says what to do.
    """
    trial = f".trial-{secrets.token_hex(8)}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        create_file(root, trial, b"")
        (root / trial).unlink()
    except (OSError, StoreFull, StoreUnavailable) as error:
        raise InvalidSettings(
            f"result store {root}: objects cannot be created there ({error}); set BATCH_ASSETS_RESULT_STORE to a "
            "folder that this user may write, on a file system with hard links"
        ) from None
    return root


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        if path.is_dir():
            raise ObjectConflict(f"{path}: a folder stands under this key") from None
        raise
    except NotADirectoryError:
        raise ObjectConflict(f"{path}: a file stands where this key needs a folder") from None
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull(
                f"no room to write {path} ({error.strerror}): free space on that disk (`df -h {path.parent}`) or set "
                "BATCH_ASSETS_RESULT_STORE to a larger place; nothing was written, so the same run can go on"
            ) from error
        raise StoreUnavailable(f"cannot write {path}: {error.strerror or error}") from error


def _make_folders(folder: Path) -> None:
    if folder.is_dir():
        return
    try:
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(folder)) from None
    _sync_folder(folder.parent)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
