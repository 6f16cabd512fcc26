"""The database's own clock as an SQL expression, in seconds since 1970."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Double, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class DatabaseNow(FunctionElement[float]):
    """Seconds since 1970 by the clock of the database's machine."""

    type = Double()
    inherit_cache = True


@compiles(DatabaseNow, "postgresql")
def _postgresql_now(_element: DatabaseNow, _compiler: SQLCompiler, **_options: Any) -> str:
    # Not now(): a statement that waited for a lock must not write the time at which its transaction began.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


@compiles(DatabaseNow, "sqlite")
def _sqlite_now(_element: DatabaseNow, _compiler: SQLCompiler, **_options: Any) -> str:
    # unixepoch('subsec') came with SQLite 3.42; julian days as doubles are good to 40 microseconds.
    return "((julianday('now') - 2440587.5) * 86400.0)"


def at(now_s: float | None, plus_s: float = 0.0) -> ColumnElement[float]:
    """Return the moment `now_s` (None: the database's now) plus `plus_s`.

    A given moment is added up here: PostgreSQL would add two decimal literals exactly, which is not what floats do.
    """
    if now_s is None:
        return DatabaseNow() + literal(plus_s, Double()) if plus_s else DatabaseNow()
    return literal(now_s + plus_s, Double())
