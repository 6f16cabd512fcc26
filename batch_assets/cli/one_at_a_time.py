"""Two `run`s of one version on one machine would only share its cores: the second one waits for the first."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from batch_assets.cli.output import note
from batch_assets.domain.errors import InvalidSettings


@contextmanager
def alone(data_dir: Path, version: str) -> Iterator[None]:
    """Hold this machine's lock of a version; it goes away with the process, however that ends.

    Raises:
        InvalidSettings: the data folder cannot be written.
    """
    path = data_dir / f"run-{version}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("w")
    except OSError as error:
        raise InvalidSettings(f"BATCH_ASSETS_DATA_DIR: {data_dir} cannot be written: {error.strerror}") from None
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"Another run of {version} works here: waiting for its end ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
