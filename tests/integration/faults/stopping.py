"""`python -m tests.integration.faults.stopping part|completion ...`: a worker that freezes at the worst moment.

It is `python -m worker` to the letter, but that the process stops itself (SIGSTOP) once, just before it puts the second
part of its shard, or just before it tells the shard table that the shard is done.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from resources.results.staging import PartWriter
from resources.shard_table.sql import SqlShardTable
from worker.__main__ import main

PLACES: dict[str, tuple[type, str, int]] = {
    "part": (PartWriter, "commit", 2),
    "completion": (SqlShardTable, "complete", 1),
}


def stop_before(owner: type, method: str, call: int) -> None:
    """Let the process stop before the given call of a method."""
    real: Callable[..., Any] = getattr(owner, method)
    calls = iter(range(1, sys.maxsize))

    def stopping(*arguments: Any, **named: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGSTOP)
        return real(*arguments, **named)

    setattr(owner, method, stopping)


if __name__ == "__main__":
    stop_before(*PLACES[sys.argv[1]])
    sys.exit(main(sys.argv[2:]))
