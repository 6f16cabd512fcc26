"""Opening a shard table: the engine of each database, its pragmas and time limits, and migrations."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from batch_assets.domain.errors import InvalidSettings, ShardTableUnavailable
from resources.shard_table.migrations import migrate
from resources.shard_table.retry import reason, retried
from resources.shard_table.sql import SqlShardTable

FORMS = "sqlite:///<file> or postgresql://<user>:<password>@<host>/<database>"

# What a dead peer or a forgotten transaction may cost, in seconds (libpq's and PostgreSQL's own settings).
POSTGRESQL_CONNECT = {
    "application_name": "batch-assets",
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# The conditional statements are written for READ COMMITTED, whatever the server's or the role's default is.
POSTGRESQL_SESSION = (
    "SET idle_in_transaction_session_timeout = '30s'; SET statement_timeout = '30s'; "
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
)


def open_shard_table(
    url: str, *, retry_for_s: float = 60.0, open_for_s: float = 10.0, busy_timeout_s: float = 30.0
) -> SqlShardTable:
    """Open the shard table at an SQLAlchemy URL and bring its schema up to date.

    Args:
        url: `sqlite:///<file>` (its folder is made if needed) or `postgresql://…`.
        retry_for_s: how long each call tries again while the database is away.
        open_for_s: the same for opening, where a wrong address looks like an absent server.
        busy_timeout_s: how long SQLite waits for another process's write before that counts as a failed try.

    Raises:
        InvalidSettings: the URL cannot be one, or the database cannot be used; never shows the password.
    """
    parsed = _parse(url)
    try:
        if parsed.get_backend_name() == "sqlite":
            engine = _sqlite_engine(parsed, busy_timeout_s)
        else:
            engine = _postgresql_engine(parsed)
    except (ArgumentError, ImportError, OSError) as error:
        raise InvalidSettings(_message(parsed, error)) from None
    try:
        whole = engine.execution_options(postgresql_whole=True)
        retried(lambda _attempt: migrate(whole), retry_for_s=open_for_s)
    except (ShardTableUnavailable, InvalidSettings, SQLAlchemyError, sqlite3.Error) as error:
        engine.dispose()
        raise InvalidSettings(_message(parsed, error)) from None
    return SqlShardTable(engine, retry_for_s=retry_for_s)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (SQLAlchemyError, ValueError):
        # The parser's own words may quote a piece of a password that was not percent-encoded.
        raise InvalidSettings(f"the shard table's URL cannot be read; it looks like {FORMS}") from None
    if backend not in {"sqlite", "postgresql"}:
        raise InvalidSettings(f"the shard table cannot be on {backend!r}; its URL looks like {FORMS}")
    if backend == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise InvalidSettings(f"the shard table needs a file that workers can share; its URL looks like {FORMS}")
    return parsed


def _message(url: URL, error: BaseException) -> str:
    said = reason(error)
    if url.password:
        said = said.replace(str(url.password), "***")
    return f"shard table {url.render_as_string(hide_password=True)}: {said}"


def _sqlite_engine(url: URL, busy_timeout_s: float) -> Engine:
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": busy_timeout_s})

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # the module would begin transactions by itself, and late
        # synchronous stays FULL: a claim that a power cut undoes would give the same epoch out twice.
        connection.execute("PRAGMA journal_mode = WAL").close()

    @event.listens_for(engine, "begin")
    def _begin(db: Connection) -> None:
        # A write takes its lock at once: a reader that becomes a writer can fail where waiting would not help.
        db.exec_driver_sql(db.get_execution_options().get("sqlite_begin", "BEGIN IMMEDIATE"))

    return engine


def _postgresql_engine(url: URL) -> Engine:
    defaults = {key: value for key, value in POSTGRESQL_CONNECT.items() if key not in url.query}
    engine = create_engine(
        url,
        connect_args=defaults,
        isolation_level="AUTOCOMMIT",  # no lock outlives its statement, but in the transactions below
        pool_pre_ping=True,
        pool_size=1,  # a fleet holds one or two connections per worker, whatever the server's limit of 100
        max_overflow=9,
    )

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        # Not as start-up options, which connection poolers refuse.
        with connection.cursor() as cursor:
            cursor.execute(POSTGRESQL_SESSION)
        connection.commit()

    # Not by psycopg2's own switch: it forgets the session's isolation level when it goes back.
    for when, statement in (("begin", "BEGIN"), ("commit", "COMMIT"), ("rollback", "ROLLBACK")):
        event.listen(engine, when, partial(_say, statement))
    return engine


def _say(statement: str, db: Connection) -> None:
    if db.get_execution_options().get("postgresql_whole") and not db.invalidated:
        db.exec_driver_sql(statement)
