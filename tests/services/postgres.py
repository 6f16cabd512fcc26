"""A real PostgreSQL server for tests: its own data folder, a free port, stopped and removed at the end."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg2

USER = "batch"
PASSWORD = "correct-horse-battery"
# A machine that loses power is not tested here; a server that is killed is, so commits are written, not synced.
OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
}


def why_not() -> str | None:
    """Return why no server can be started here, or None."""
    missing = [name for name in ("initdb", "pg_ctl") if shutil.which(name) is None]
    return f"PostgreSQL's {' and '.join(missing)} not on the PATH" if missing else None


def _identity() -> dict[str, Any]:
    """Return whom to run as: the server refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class PostgresServer:
    """One server. `start` and `stop` may alternate: the port and the data stay. `options` go before `OPTIONS`."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._options = {**OPTIONS, **(options or {})}
        self._identity = _identity()
        self._folder = Path(tempfile.mkdtemp(prefix="batch-postgres-"))
        self._names = itertools.count(1)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        if self._identity:
            os.chown(self._folder, self._identity["user"], self._identity["group"])
        password_file = self._folder / "password"
        password_file.write_text(PASSWORD)
        password_file.chmod(0o644)
        self._run("initdb", "-U", USER, "-A", "scram-sha-256", "--pwfile", str(password_file), "-E", "UTF8", "-N")

    def start(self) -> None:
        """Start and wait until it takes connections."""
        options = " ".join(f"-c {name}='{value}'" for name, value in {**self._options, "port": self.port}.items())
        self._run("pg_ctl", "start", "-w", "-l", str(self._folder / "log"), "-o", options)

    def stop(self) -> None:
        """End every session at once and stop."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def remove(self) -> None:
        """Delete the data."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str, *, password: str = PASSWORD) -> str:
        """Return a database's URL."""
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"test_{next(self._names)}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement outside of a transaction and return its rows."""
        connection = psycopg2.connect(self.url(database))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def _run(self, program: str, *arguments: str) -> None:
        command = [program, "-D", str(self._folder / "data"), *arguments]
        # The server keeps its parent's output open: a pipe would never end.
        with (self._folder / "commands").open("a+") as log:
            done = subprocess.run(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                **self._identity,
            )
            if done.returncode != 0:
                log.seek(0)
                raise RuntimeError(f"{program} failed: {log.read()}")
