"""Are the columns there that a job reads? One message for every format."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from batch_assets.domain.errors import InputError
from batch_assets.domain.spec import InputColumns

_SHOWN = 30


def check_names(key: str, names: Sequence[str], columns: InputColumns) -> None:
    """Check that a file with these columns has each one that the job reads, once.

    Raises:
        InputError: it has not; the message names the column, the file, what is there, and what comes close.
    """
    for wanted in columns.all:
        times = names.count(wanted)
        if times > 1:
            raise InputError(f"{key}: has {times} columns named {wanted!r}; nobody can say which is meant")
        if times == 0:
            raise InputError(f"{key}: has no column {wanted!r}{_close(wanted, names)}; it has {_listed(names)}")


def _close(wanted: str, names: Sequence[str]) -> str:
    folded = {name.strip().casefold(): name for name in names}
    close = difflib.get_close_matches(wanted.strip().casefold(), folded, n=3)
    return f" (did you mean {', '.join(repr(folded[name]) for name in close)}?)" if close else ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown or "none"
