"""The load benchmark's baseline: single-row updates of a plain table by its key, a transaction each; nothing else."""

from __future__ import annotations

import time

import psycopg2
from load_measures import Measured
from sqlalchemy import create_engine, text

TABLE = "bare_row"
CREATE = f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY, value BIGINT NOT NULL)"
FILL = f"INSERT INTO {TABLE} SELECT id, 0 FROM generate_series(0, %s) AS id"


class BarePsycopg2:
    """One connection that updates its own row again and again through psycopg2."""

    def __init__(self, url: str, number: int) -> None:
        self._number = number
        self.measured = Measured()
        self._connection = psycopg2.connect(url)

    def run(self, start_s: float, end_s: float) -> None:
        """Update from `start_s` until `end_s` of `time.perf_counter`."""
        time.sleep(max(0.0, start_s - time.perf_counter()))
        while time.perf_counter() < end_s:
            self.once()

    def once(self) -> None:
        """Update once."""
        self.measured.timed("update", self._update)

    def _update(self) -> None:
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(f"UPDATE {TABLE} SET value = value + 1 WHERE id = %s", (self._number,))


class BareSqlalchemy:
    """The same through an SQLAlchemy engine as it comes, with one connection."""

    def __init__(self, url: str, number: int) -> None:
        self._row = {"id": number}
        self.measured = Measured()
        self._engine = create_engine(url, pool_size=1)
        self._statement = text(f"UPDATE {TABLE} SET value = value + 1 WHERE id = :id")
        self._engine.connect().close()

    def run(self, start_s: float, end_s: float) -> None:
        """Update from `start_s` until `end_s` of `time.perf_counter`."""
        time.sleep(max(0.0, start_s - time.perf_counter()))
        while time.perf_counter() < end_s:
            self.measured.timed("update", self._update)

    def _update(self) -> None:
        with self._engine.begin() as db:
            db.execute(self._statement, self._row)
