"""Attempts at one record: why a try failed, as a type, and what is done about it.

RecordFailure
refused at planning (never tried):
Unreadable  MissingId  InvalidId  DuplicateId  ConflictingId  EmptyText  InvalidText  InvalidColumn  OverLength
after a try:
Transient      retried; counts
InvalidOutput  retried; counts
Truncated      retried with the job's larger limit, if it has one; counts
Refused        the engine refused the request itself: dead at once
EngineCrash    the engine died with this record alone in flight; counts
PermanentFailure   dead at once
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar


class RecordFailure(Exception):
    """Why one record got no result. `name` is the class that dead letters and reports show."""

    name: ClassVar[str]
    retried: ClassVar[bool] = False

    def __init__(self, message: str, output: str | None = None) -> None:
        """Keep the reason and, where there is one, what the model said."""
        super().__init__(message)
        self.message = message
        self.output = output


class Unreadable(RecordFailure):
    """A line that is not JSON or not UTF-8."""

    name = "unreadable"


class MissingId(RecordFailure):
    """The id is null, blank or not there."""

    name = "missing_id"


class InvalidId(RecordFailure):
    """The id is not text (a number in JSON lines, a list, a boolean), or cannot be stored as UTF-8."""

    name = "invalid_id"


class DuplicateId(RecordFailure):
    """An earlier row has the same id and the same content: that one is answered, this one is not."""

    name = "duplicate_id"


class ConflictingId(RecordFailure):
    """Other rows have the same id with other content: nobody can say which one is meant, so none is answered."""

    name = "conflicting_id"


class EmptyText(RecordFailure):
    """The text is null, not there, or holds nothing visible."""

    name = "empty_text"


class InvalidText(RecordFailure):
    """The text is not text (a number, a list), or cannot be stored as UTF-8 (lone surrogates)."""

    name = "invalid_text"


class InvalidColumn(RecordFailure):
    """A carried column or the access labels cannot be stored: not UTF-8, or labels that are not a list of text."""

    name = "invalid_column"


class OverLength(RecordFailure):
    """The text has more tokens than the job's limit."""

    name = "over_length"


class TransientFailure(RecordFailure):
    """The engine gave no answer for a reason that may pass (an abort that nobody asked for)."""

    name = "transient"
    retried = True


class InvalidOutput(RecordFailure):
    """The answer does not satisfy the output schema."""

    name = "invalid_output"
    retried = True


class Truncated(RecordFailure):
    """The answer was cut off by the token limit and is not complete."""

    name = "truncated"
    retried = True


class Refused(RecordFailure):
    """The engine refused the request before running it."""

    name = "refused"


class EngineCrash(RecordFailure):
    """The engine died or stood still with this record alone in flight."""

    name = "engine_crash"
    retried = True


class PermanentFailure(RecordFailure):
    """Any other failure that a retry cannot mend."""

    name = "permanent"


FAILURE_NAMES: tuple[str, ...] = tuple(sorted({leaf.name for leaf in RecordFailure.__subclasses__()}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What one record has behind it: tries that were its own fault, and tries lost to infrastructure.

    `failure` is the class of the newest own failure. A record that is asked alone because it may have killed a worker
    is charged an `engine_crash` before it is asked, and given it back when it answers.
    """

    own: int = 0
    infrastructure: int = 0
    failure: str = ""

    @property
    def attempts(self) -> int:
        """The number that provenance shows for a result: all failed tries and the one that succeeded."""
        return self.own + self.infrastructure + 1

    def failed(self, failure: RecordFailure) -> Tries:
        """Return what stands after one more own failure."""
        return replace(self, own=self.own + 1, failure=failure.name)

    def lost(self) -> Tries:
        """Return what stands after one more try that infrastructure took."""
        return replace(self, infrastructure=self.infrastructure + 1)


class Verdict(StrEnum):
    """What happens to a record after a failed try."""

    RETRY = "retry"
    RETRY_LARGER = "retry_larger"
    BURY = "bury"


def decide(failure: RecordFailure, own_tries: int, *, attempts_max: int, has_larger_limit: bool) -> Verdict:
    """Decide after the record's `own_tries`-th own failure (this one included).

    A truncated answer is retried only under a larger limit: at the same limit the model would say the same.
    """
    if not failure.retried or own_tries >= attempts_max:
        return Verdict.BURY
    if isinstance(failure, Truncated):
        return Verdict.RETRY_LARGER if has_larger_limit and own_tries == 1 else Verdict.BURY
    return Verdict.RETRY
