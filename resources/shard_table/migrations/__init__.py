"""Numbered migrations: one module `m<number>_<what>.py` each, applied in order, never edited after a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, insert, inspect, select, text

from batch_assets.domain.errors import InvalidSettings
from resources.shard_table.migrations import m0001_shards, m0002_failure_of_tries, m0003_vacuum_in_time
from resources.shard_table.tables import SCHEMA_VERSION

# Any number that nobody else uses in this database: the key of PostgreSQL's advisory lock around migrations.
LOCK_KEY = 0x6261746368


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step. `statements` run on both databases, `postgresql` after them on that one alone."""

    number: int
    statements: Sequence[str]
    postgresql: Sequence[str] = ()


MIGRATIONS = (
    Migration(number=1, statements=m0001_shards.STATEMENTS, postgresql=m0001_shards.POSTGRESQL_STATEMENTS),
    Migration(number=2, statements=m0002_failure_of_tries.STATEMENTS),
    Migration(number=3, statements=(), postgresql=m0003_vacuum_in_time.POSTGRESQL_STATEMENTS),
)
NEWEST = MIGRATIONS[-1].number


def migrate(engine: Engine) -> None:
    """Bring a database to the newest schema. Safe from many processes at once: one works, the others wait for it.

    A database that is up to date is only read, so a role without the right to create tables can use it.

    Raises:
        InvalidSettings: a newer release of this project has migrated the database.
    """
    with engine.connect() as db:
        applied = _applied(db)
    if applied == NEWEST:
        return
    with engine.begin() as db:  # on SQLite this takes the write lock
        if db.dialect.name == "postgresql":
            db.execute(select(func.pg_advisory_xact_lock(LOCK_KEY)))
        applied = _applied(db)
        if applied > NEWEST:
            raise InvalidSettings(f"its schema is number {applied}, this release knows {NEWEST}: upgrade batch-assets")
        _apply_after(db, applied)


def _applied(db: Connection) -> int:
    if not inspect(db).has_table(SCHEMA_VERSION.name):
        return 0
    return int(db.execute(select(func.coalesce(func.max(SCHEMA_VERSION.c.number), 0))).scalar_one())


def _apply_after(db: Connection, applied: int) -> None:
    if applied == 0:
        SCHEMA_VERSION.create(db)
    for migration in MIGRATIONS[applied:]:
        for statement in migration.statements:
            db.execute(text(statement))
        for statement in migration.postgresql if db.dialect.name == "postgresql" else ():
            db.execute(text(statement))
        db.execute(insert(SCHEMA_VERSION).values(number=migration.number))
