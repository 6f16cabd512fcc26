"""Which database errors pass by themselves, and waiting for that."""

from __future__ import annotations

import itertools
import logging
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from batch_assets.domain.errors import ShardTableUnavailable

T = TypeVar("T")

LOG = logging.getLogger(__name__)
WAIT_S_MAX = 3.0
SQLITE_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_FULL})


def is_transient(error: BaseException) -> bool:
    """Say whether the same call may succeed later: a lock, a dropped connection, a restarting server, a deadlock."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        # The low byte is the primary code, e.g. BUSY of BUSY_SNAPSHOT. Errors of the module itself have no code.
        return (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF in SQLITE_PASSING
    if isinstance(error, (OperationalError, InterfaceError, PoolTimeoutError)):
        return True
    return isinstance(error, DBAPIError) and error.connection_invalidated


def retried(work: Callable[[int], T], *, retry_for_s: float) -> T:
    """Call `work` until it succeeds. It is told its attempt: beyond 1, one may have gone through unheard.

    Raises:
        ShardTableUnavailable: the database was still not there after `retry_for_s`.
    """
    attempts = Retrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_delay(retry_for_s),
        wait=wait_random_exponential(multiplier=0.1, max=WAIT_S_MAX),
        before_sleep=_say,
        reraise=True,
    )
    numbers = itertools.count(1)
    try:
        return attempts(lambda: work(next(numbers)))
    except Exception as error:
        if is_transient(error):
            raise ShardTableUnavailable(f"no answer for {retry_for_s:g} s: {reason(error)}") from error
        raise


def reason(error: BaseException) -> str:
    """Return the driver's own words, in one line, without SQLAlchemy's statement and parameters."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(cause).split()) or type(cause).__name__


def _say(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    LOG.warning("shard table: try %d failed, trying again: %s", state.attempt_number, reason(error) if error else "")
