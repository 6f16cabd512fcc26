"""How the shard table sets PostgreSQL up: room in pages, vacuums, isolation."""

from __future__ import annotations

from resources.shard_table.connect import open_shard_table
from tests.services.postgres import PostgresServer


def test_a_renewal_can_be_a_hot_update(postgres_server: PostgresServer) -> None:
    """No index holds a column that a renewal writes, and pages have room: updates stay in their page."""
    url = postgres_server.create_database()
    open_shard_table(url).close()
    name = url.rpartition("/")[2]
    indexes = postgres_server.execute(name, "SELECT indexdef FROM pg_indexes WHERE tablename = 'batch_shard'")
    [(options,)] = postgres_server.execute(name, "SELECT reloptions FROM pg_class WHERE relname = 'batch_shard'")
    assert len(indexes) == 2
    assert not [row for row in indexes if "expires_at_s" in row[0] or "results" in row[0]]
    assert "fillfactor=50" in options


def test_dead_rows_do_not_wait_for_a_fifth_of_the_table(postgres_server: PostgresServer) -> None:
    """PostgreSQL's default lets a version of 100,000 shards keep 20,000 dead rows, and claims walk past them."""
    url = postgres_server.create_database()
    open_shard_table(url).close()
    statement = "SELECT reloptions FROM pg_class WHERE relname = 'batch_shard'"
    [(options,)] = postgres_server.execute(url.rpartition("/")[2], statement)
    vacuum = {"autovacuum_vacuum_scale_factor=0", "autovacuum_vacuum_threshold=500", "vacuum_index_cleanup=on"}
    assert vacuum <= set(options)


def test_the_servers_default_isolation_does_not_matter(postgres_server: PostgresServer) -> None:
    """A role may be set to SERIALIZABLE; the conditional statements are written for READ COMMITTED."""
    url = postgres_server.create_database()
    name = url.rpartition("/")[2]
    postgres_server.execute(name, f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    table = open_shard_table(url)
    with table._engine.connect() as db:
        assert db.exec_driver_sql("SHOW transaction_isolation").scalar_one() == "read committed"
    with table._transactions.begin() as db:
        assert db.exec_driver_sql("SHOW transaction_isolation").scalar_one() == "read committed"
    table.close()
