"""Opening a shard table with what people put into a setting: each mistake is InvalidSettings and says what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from batch_assets.domain.errors import InvalidSettings
from resources.shard_table.connect import open_shard_table
from tests.contracts.shard_table_values import V, plan
from tests.services.postgres import PASSWORD, PostgresServer

SECRET = "hunter2-s3cret"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "sqlite:///"),
        ("shards.db", "sqlite:///"),
        ("sqlite://", "a file that workers can share"),
        ("sqlite:///:memory:", "a file that workers can share"),
        (f"mysql://me:{SECRET}@db/shards", "'mysql'"),
        (f"postgres://me:{SECRET}@db/shards", "postgresql://"),
        (f"postgresql://me:x@{SECRET}:5432:1/shards", "cannot be read"),
        (f"postgresql+nosuch://me:{SECRET}@db/shards", "nosuch"),
    ],
)
def test_a_url_that_cannot_work_is_refused(url: str, says: str) -> None:
    """The message shows what a URL looks like, and never a piece of the password."""
    with pytest.raises(InvalidSettings) as raised:
        open_shard_table(url)
    assert says in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_refused_password_is_not_shown(postgres_server: PostgresServer) -> None:
    """A wrong password, a database that is not there, a server that is not there: the reason, and no secret."""
    for url, says in (
        (postgres_server.url("postgres", password=SECRET), "authentication failed"),
        (postgres_server.url("nowhere"), "does not exist"),
        (f"postgresql://me:{SECRET}@127.0.0.1:1/shards", "refused"),
    ):
        with pytest.raises(InvalidSettings, match=says) as raised:
            open_shard_table(url, open_for_s=0)
        assert SECRET not in str(raised.value)
        assert PASSWORD not in str(raised.value)
        assert raised.value.__suppress_context__


def test_a_password_that_the_driver_repeats_is_hidden(postgres_server: PostgresServer) -> None:
    """Whatever the driver says, the password is taken out of it (here the same word is the database's name)."""
    with pytest.raises(InvalidSettings, match=r"\*\*\*") as raised:
        open_shard_table(postgres_server.url(PASSWORD), open_for_s=0)
    assert f'"{PASSWORD}"' not in str(raised.value)


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    """The embedded default works in a fresh checkout."""
    table = open_shard_table(f"sqlite:///{tmp_path / 'new' / 'folder' / 'shards.db'}")
    table.register("tickets", V, plan(1))
    table.close()


def test_a_path_that_cannot_be_a_database_is_refused(tmp_path: Path) -> None:
    """A folder, a file under a file, and a file of something else."""
    (tmp_path / "text").write_text("not a database, but long enough to be read as one " * 40)
    for path in (tmp_path, tmp_path / "text" / "shards.db", tmp_path / "text"):
        with pytest.raises(InvalidSettings, match="shard table sqlite:///"):
            open_shard_table(f"sqlite:///{path}", open_for_s=0)


def test_a_database_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    """An old worker must not write into a schema that it does not know."""
    path = tmp_path / "shards.db"
    open_shard_table(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO batch_schema_version VALUES (999)")
    connection.commit()
    connection.close()
    with pytest.raises(InvalidSettings, match="upgrade"):
        open_shard_table(f"sqlite:///{path}")
