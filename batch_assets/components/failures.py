"""A user's mistake or a refused gate ends a step with its message, not with a traceback, and is never retried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from batch_assets.domain.errors import BatchError, ShardCancelled


@contextmanager
def plain_failures() -> Iterator[None]:
    """Turn this project's own errors into a step failure. Retries of inference live in the shard table alone."""
    try:
        yield
    except ShardCancelled as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    except BatchError as error:
        raise dg.Failure(f"{type(error).__name__}: {error}", allow_retries=False) from error
