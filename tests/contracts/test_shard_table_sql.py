"""What only the databases have: migrations, restarts, locks, lost answers, and how many statements a call costs."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy import Engine, create_engine, event, inspect

from batch_assets.domain.attempt import Tries
from batch_assets.domain.errors import LeaseLost, ShardTableUnavailable
from batch_assets.domain.lease import ShardState
from batch_assets.domain.ports import Beat
from resources.shard_table.connect import open_shard_table
from resources.shard_table.sql import SqlShardTable
from resources.shard_table.tables import METADATA
from tests.contracts.shard_table_values import OUTCOME, T0, TTL_S, V, plan, take
from tests.services.postgres import PostgresServer


class FirstRetry(logging.Handler):
    """Tells a test that a call is being tried again."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002, D102 - logging's own
        self.seen.set()


@pytest.fixture
def first_retry() -> Iterator[threading.Event]:
    """An event that is set when any call is tried again."""
    handler, log = FirstRetry(), logging.getLogger("resources.shard_table.retry")
    log.addHandler(handler)
    yield handler.seen
    log.removeHandler(handler)


# --- schema


def test_the_migrated_tables_are_the_declared_ones(sql_url: str) -> None:
    """`tables.py` says what the migrations made: every column, its nullability and the keys."""
    open_shard_table(sql_url).close()
    engine = create_engine(sql_url)
    found = inspect(engine)
    for table in METADATA.sorted_tables:
        columns = {column["name"]: column["nullable"] for column in found.get_columns(table.name)}
        assert columns == {column.name: column.nullable for column in table.columns}
        keys = found.get_pk_constraint(table.name)["constrained_columns"]
        assert keys == [column.name for column in table.primary_key.columns]
    assert set(METADATA.tables) <= set(found.get_table_names())
    engine.dispose()


def test_opening_again_keeps_what_stands(sql_url: str) -> None:
    """Migrations are applied once."""
    first = open_shard_table(sql_url)
    first.register("tickets", V, plan(3))
    first.close()
    second = open_shard_table(sql_url)
    assert len(second.shards(V)) == 3
    second.close()


# --- statements


def statements_of(engine: Engine) -> list[str]:
    seen: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def _note(_db: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if not statement.startswith(("BEGIN", "COMMIT", "PRAGMA")):
            seen.append(statement)

    return seen


def test_ten_thousand_shards_are_registered_in_bulk(sql_table: SqlShardTable) -> None:
    """Registration costs a statement per thousand shards, not one each."""
    seen = statements_of(sql_table._engine)
    sql_table.register("tickets", V, plan(10_000))
    assert len(seen) <= 1 + 10 + 1  # the version, a thousand shards each, ANALYZE
    assert len(sql_table.shards(V)) == 10_000


CALLS: dict[str, Callable[[SqlShardTable], Any]] = {
    "register": lambda table: table.register("tickets", V, plan(3)),
    "claim": lambda table: take(table, "w2"),
    "renew": lambda table: table.renew(held(table), results=1, dead_letters=0, ttl_s=TTL_S, now_s=T0),
    "release": lambda table: table.release(held(table), results=1, dead_letters=0),
    "complete": lambda table: table.complete(held(table), OUTCOME, now_s=T0),
    "charge": lambda table: table.charge(held(table), {0: Tries(own=1)}),
    "absolve": lambda table: table.absolve(held(table)),
    "expire": lambda table: table.expire(V, "w1", now_s=T0),
    "cancel": lambda table: table.cancel(V),
    "resume": lambda table: table.resume(V),
    "beat": lambda table: table.beat(
        Beat(worker="w1", version=V, state="running", records=1, records_per_s=1, tokens_per_s=1), now_s=T0
    ),
    "shards": lambda table: table.shards(V),
    "counts": lambda table: table.counts(V),
    "tries": lambda table: table.tries(V, 0),
    "workers": lambda table: table.workers(V),
}
HELD: dict[int, Any] = {}


def held(table: SqlShardTable) -> Any:
    return HELD[id(table)]


@pytest.fixture
def table_in_work(sql_table: SqlShardTable) -> Iterator[SqlShardTable]:
    """A table with a version of three shards, the first of them leased."""
    sql_table.register("tickets", V, plan(3))
    HELD[id(sql_table)] = take(sql_table)
    yield sql_table
    del HELD[id(sql_table)]


@pytest.mark.parametrize(
    "call", ["claim", "renew", "release", "complete", "absolve", "expire", "beat", "shards", "counts"]
)
def test_a_call_is_one_statement(table_in_work: SqlShardTable, call: str) -> None:
    """No state change reads first: what it asks and what it changes are one statement."""
    seen = statements_of(table_in_work._engine)
    CALLS[call](table_in_work)
    assert len(seen) == 1


@pytest.mark.parametrize("call", CALLS)
def test_no_transaction_stays_open(table_in_work: SqlShardTable, call: str) -> None:
    """Between calls no connection is in use."""
    CALLS[call](table_in_work)
    assert table_in_work._engine.pool.status().find("Current Checked out connections: 0") >= 0


def test_sqlite_writers_take_their_lock_first_and_readers_none(tmp_path: Path) -> None:
    """A transaction that reads and then writes can fail at the write, at once: writers never begin as readers."""
    table = open_shard_table(f"sqlite:///{tmp_path / 'shards.db'}")
    begun: list[str] = []

    @event.listens_for(table._engine, "before_cursor_execute")
    def _note(_db: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        begun.extend([statement] if statement.startswith("BEGIN") else [])

    table.register("tickets", V, plan(1))
    table.counts(V)
    assert begun == ["BEGIN IMMEDIATE", "BEGIN"]
    table.close()


def test_a_charge_waits_for_a_claim_that_is_being_committed(postgres_server: PostgresServer) -> None:
    """The next owner reads a record's tries once: a charge of the last epoch lands before its claim, or never."""
    url = postgres_server.create_database()
    table = open_shard_table(url)
    table.register("tickets", V, plan(1))
    lease = take(table)
    claimant = psycopg2.connect(url)
    with claimant.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("UPDATE batch_shard SET epoch = epoch + 1")
        charge = pool.submit(table.charge, lease, {0: Tries(own=1)})
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        while not charge.done() and not postgres_server.execute(url.rpartition("/")[2], waiting):
            pass
        claimant.commit()
        with pytest.raises(LeaseLost):
            charge.result()
    claimant.close()
    assert table.tries(V, 0) == {}
    table.close()


@pytest.mark.parametrize("call", ["claim", "renew", "release", "complete", "absolve", "expire", "beat"])
def test_a_worker_that_stalls_inside_a_call_locks_nobody_out(postgres_server: PostgresServer, call: str) -> None:
    """Incident: 2,000 workers at once, some of them starved of CPU between a claim and its commit; the rest waits.

    Whatever a statement changed is committed when its answer comes, before the worker says another word.
    """
    table = open_shard_table(postgres_server.create_database())
    table.register("tickets", V, plan(3))
    HELD[id(table)] = take(table)
    database = str(table._engine.url.database)
    locked: list[Any] = []

    @event.listens_for(table._engine, "after_cursor_execute")
    def _look(*_args: Any) -> None:
        held = "SELECT relation::regclass, mode FROM pg_locks WHERE mode LIKE 'Row%' AND pid <> pg_backend_pid()"
        locked.extend(postgres_server.execute(database, f"{held} AND relation IS NOT NULL"))
        postgres_server.execute(database, "SELECT 1 FROM batch_shard FOR UPDATE NOWAIT")

    CALLS[call](table)
    del HELD[id(table)]
    table.close()
    assert locked == []


# --- lost answers


def lose_next_answer(engine: Engine) -> None:
    """Let the next commit go through and its answer get lost, as the driver reports a dropped connection."""
    dialect: Any = engine.dialect
    commit = dialect.do_commit
    lost = sqlite3.OperationalError("lost") if dialect.name == "sqlite" else psycopg2.OperationalError("lost")
    if isinstance(lost, sqlite3.OperationalError):
        lost.sqlite_errorcode = sqlite3.SQLITE_BUSY

    def once(connection: Any) -> None:
        dialect.do_commit = commit
        commit(connection)
        raise lost

    dialect.do_commit = once


@pytest.mark.parametrize("call", [name for name in CALLS if name not in {"shards", "counts", "tries", "workers"}])
def test_a_call_whose_answer_was_lost_counts_once(
    table_in_work: SqlShardTable, first_retry: threading.Event, call: str
) -> None:
    """Incident: the database commits and dies before it answers. The call is sent again, and nothing happens twice."""
    lose_next_answer(table_in_work._engine)
    CALLS[call](table_in_work)
    assert first_retry.is_set()
    rows = table_in_work.shards(V)
    expected = {"claim": [1, 1, 0]}.get(call, [1, 0, 0])
    assert [row.epoch for row in rows] == expected


def test_a_release_that_another_worker_followed_is_still_a_lost_lease(table_in_work: SqlShardTable) -> None:
    """Only the own epoch's release is taken for the lost one."""
    stale = held(table_in_work)
    assert table_in_work.claim(V, "w2", ttl_s=TTL_S, shards=[0], now_s=T0 + 2 * TTL_S) is not None
    with pytest.raises(LeaseLost, match="epoch 2"):
        table_in_work.release(stale, results=0, dead_letters=0)


# --- restarts and locks


def test_every_call_survives_a_restart_of_postgresql(
    postgres_server: PostgresServer, first_retry: threading.Event
) -> None:
    """Incident: the database restarts in the middle of a run. All calls wait for it and succeed."""
    table = open_shard_table(postgres_server.create_database())
    table.register("tickets", V, plan(3))
    # Those that end the lease, or let the claim have it, would decide how the others end.
    names = [name for name in CALLS if name not in {"release", "complete", "expire", "cancel", "resume"}]
    HELD[id(table)] = take(table)
    postgres_server.stop()
    try:
        with ThreadPoolExecutor(len(names)) as pool:
            answers = {name: pool.submit(CALLS[name], table) for name in names}
            assert first_retry.wait(60)
            postgres_server.start()
            assert answers["claim"].result().shard == 1
            assert len(answers["shards"].result()) == 3
            for answer in answers.values():
                answer.result()
    finally:
        del HELD[id(table)]
    table.close()


def test_a_session_that_the_server_ended_is_replaced(postgres_server: PostgresServer) -> None:
    """A pooled connection that an administrator or a failover closed costs nothing."""
    url = postgres_server.create_database()
    table = open_shard_table(url)
    table.register("tickets", V, plan(1))
    postgres_server.execute(
        "postgres",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{url.rpartition('/')[2]}'",
    )
    assert take(table).shard == 0
    table.close()


def test_a_call_survives_a_locked_sqlite_file(tmp_path: Path, first_retry: threading.Event) -> None:
    """Incident: another process holds the write lock for longer than the busy timeout. The call tries again."""
    path = tmp_path / "shards.db"
    table = open_shard_table(f"sqlite:///{path}", busy_timeout_s=0.01)
    table.register("tickets", V, plan(1))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        lease = pool.submit(take, table)
        assert first_retry.wait(60)
        assert table.shards(V)[0].state is ShardState.PENDING  # readers never wait
        holder.execute("COMMIT")
        assert lease.result().shard == 0
    holder.close()
    table.close()


def test_a_database_that_stays_away_is_unavailable(postgres_server: PostgresServer) -> None:
    """After `retry_for_s` the caller gets our error, with the driver's reason as its cause."""
    table = open_shard_table(postgres_server.create_database(), retry_for_s=0)
    postgres_server.stop()
    try:
        with pytest.raises(ShardTableUnavailable, match="refused") as raised:
            table.counts(V)
    finally:
        postgres_server.start()
    assert raised.value.__cause__ is not None
    table.close()


def test_a_broken_statement_is_not_retried(sql_table: SqlShardTable, first_retry: threading.Event) -> None:
    """A bug must not look like an outage for a minute."""
    with pytest.raises(Exception, match=r"(?i)null"):
        sql_table.beat(Beat(worker="w1", version=None, state="", records=0, records_per_s=0, tokens_per_s=0))  # type: ignore[arg-type]
    assert not first_retry.is_set()
