"""A PostgreSQL server for the load benchmarks, and what it says of the shard table's rows and of its own memory.

Commits are synced to the disk and everything else is as PostgreSQL comes, but for `max_connections`: a fleet holds one
or two connections a worker.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg2

sys.path.append(str(Path(__file__).parents[1]))

from tests.services.postgres import PostgresServer

TABLE_STATISTICS = """
SELECT s.n_live_tup, s.n_dead_tup, s.n_tup_upd, s.n_tup_hot_upd, s.autovacuum_count,
       pg_table_size(s.relid), pg_indexes_size(s.relid)
FROM pg_stat_user_tables s WHERE s.relname = %s
"""


def server_options(connections: int) -> dict[str, str]:
    """Return what differs from the tests' server: this one loses nothing when it is cut off."""
    return {
        "fsync": "on",
        "full_page_writes": "on",
        "shared_buffers": "128MB",
        "max_connections": str(connections),
    }


@contextlib.contextmanager
def database(url: str | None, *, connections: int) -> Iterator[str]:
    """Give an empty database's URL: the given one, or one on a server of our own that ends with the block."""
    if url:
        yield url
        return
    server = PostgresServer(server_options(connections))
    try:
        server.start()
        try:
            yield server.create_database()
        finally:
            server.stop()
    finally:
        server.remove()


def query(url: str, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run one statement outside of a transaction, on a connection of its own, and return its rows."""
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def table_statistics(url: str, table: str) -> dict[str, Any]:
    """Return a table's live and dead rows, updates since its creation, and sizes in KB."""
    live, dead, updates, hot, vacuums, table_bytes, index_bytes = query(url, TABLE_STATISTICS, (table,))[0]
    return {
        "live": live,
        "dead": dead,
        "updates": updates,
        "hot_share": round(hot / updates, 3) if updates else None,
        "autovacuums": vacuums,
        "table_kb": table_bytes // 1024,
        "indexes_kb": index_bytes // 1024,
    }


def server_cpu_s(url: str) -> float:
    """Return the CPU seconds of the server and all of its processes, those that have ended included; 0 if far away."""
    [(pid,)] = query(url, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
    try:
        server = psutil.Process(pid).parent()
    except psutil.Error:
        return 0.0
    if server is None:
        return 0.0
    own = server.cpu_times()
    seconds = float(own.user + own.system + own.children_user + own.children_system)
    for child in server.children():
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            seconds += times.user + times.system
    return seconds


def server_memory(url: str) -> dict[str, Any]:
    """Return how many sessions there are and what memory they have, in MB of their own (shared pages by share)."""
    pids = [pid for (pid,) in query(url, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")]
    total_kb = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # another machine's, another user's, or gone
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total_kb += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return {"sessions": len(pids), "sessions_mb": total_kb // 1024}
