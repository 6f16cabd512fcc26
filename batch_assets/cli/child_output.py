"""What Dagster's processes print goes to a log file: stdout is a program's, and a step's traceback is no message."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

STREAMS = ("stdout", "stderr")


@contextmanager
def child_output_to(log: Path) -> Iterator[None]:
    """Give the processes that are started inside this block `log` for their output; our own goes where it went."""
    log.parent.mkdir(parents=True, exist_ok=True)
    before = {name: getattr(sys, name) for name in STREAMS}
    saved = {name: os.dup(number) for number, name in enumerate(STREAMS, start=1)}
    with log.open("ab") as target:
        for number, name in enumerate(STREAMS, start=1):
            before[name].flush()
            os.dup2(target.fileno(), number)
            setattr(sys, name, _own(saved[name]))
    try:
        yield
    finally:
        for number, name in enumerate(STREAMS, start=1):
            getattr(sys, name).close()
            os.dup2(saved[name], number)
            os.close(saved[name])
            setattr(sys, name, before[name])


def _own(descriptor: int) -> TextIO:
    """Return a text stream over a descriptor that stays open when the stream is closed."""
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)
