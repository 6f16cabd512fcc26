"""Exit codes of the command line, and how an error becomes one: scripts may rely on them."""

from __future__ import annotations

from enum import IntEnum

from batch_assets.domain.errors import BatchError, GateRefused, UserError


class Exit(IntEnum):
    """What the process ends with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    INTERRUPTED = 130


MEANING = {
    Exit.DONE: "done",
    Exit.FAILED: "failed: the message says what, and what stands",
    Exit.USAGE: "usage: a wrong option, name, file, column, declaration or setting; nothing was changed",
    Exit.REFUSED: "a gate refused to publish; the old release still stands",
    Exit.INTERRUPTED: "interrupted with Ctrl-C; what was committed stays",
}


class NotDone(BatchError):
    """What was asked for cannot be given yet: records are pending, a run failed or ended early."""


def exit_for(error: BatchError) -> Exit:
    """Return the exit code of an error that was raised on purpose."""
    if isinstance(error, UserError):
        return Exit.USAGE
    return Exit.REFUSED if isinstance(error, GateRefused) else Exit.FAILED


def epilog() -> str:
    """Return the codes as the last lines of `--help`."""
    return "Exit codes: " + "; ".join(f"{code.value} {text.partition(':')[0]}" for code, text in MEANING.items()) + "."
