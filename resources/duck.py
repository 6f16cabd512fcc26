"""DuckDB over the result store: the S3 extension from its PyPI package, never from the network."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
from botocore.exceptions import BotoCoreError

from batch_assets.domain.errors import InvalidSettings
from resources.result_store.aws import S3Access, resolve
from resources.result_store.config import S3Config

_SECRET = "batch_assets"  # noqa: S105  # the secret's name
_HTTP_RETRIES = 5  # with DuckDB's waits of 0.1 s times 4 each: some 30 s, a server's restart


def connect(
    s3: S3Config | None = None,
    *,
    memory_limit: str = "2GB",
    threads: int | None = None,
    temp_directory: str | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return an in-memory DuckDB that reads local paths and, with `s3`, `s3://` addresses. The caller closes it.

    The credentials are those of this moment: a connection is for one piece of work, not for days. Where the environment
    has none, public buckets are all it reads. Beyond `memory_limit` it spills into a folder of its own below
    `temp_directory` (default: the system's), which it removes.

    Raises:
        InvalidSettings: the extension is not installed for this DuckDB, or the credentials cannot be read.
    """
    if temp_directory:
        Path(temp_directory).mkdir(parents=True, exist_ok=True)
    scratch = Path(temp_directory or tempfile.gettempdir(), f"duckdb-{os.getpid()}-{secrets.token_hex(4)}")
    connection = duckdb.connect(
        config={
            "memory_limit": memory_limit,
            "temp_directory": str(scratch),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_persistent_secrets": False,
            **({"threads": threads} if threads else {}),
        }
    )
    if s3 is not None:
        try:
            _prepare_s3(connection, resolve(s3))
        except BaseException:
            connection.close()
            raise
    return connection


def quote(text: str) -> str:
    """Return `text` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_list(texts: Iterable[str]) -> str:
    """Return texts as an SQL list literal, as `read_parquet` takes it."""
    return "[" + ", ".join(quote(text) for text in texts) + "]"


def secret_sql(s3: S3Config | None = None, *, offline: bool = False) -> str:
    """Return statements that let a user's own DuckDB read the store; they hold no secret.

    The usual form downloads DuckDB's extensions and takes the user's AWS credentials, profile and SSO included. Without
    a network, `offline` loads the extension that is installed here and takes `AWS_ACCESS_KEY_ID` and its siblings from
    the environment; DuckDB's command line knows `getenv`, its Python package does not.
    """
    s3 = s3 or S3Config()
    where = _where(resolve(s3))
    if offline:
        load = f"LOAD {quote(str(_httpfs()))};"
        who = [
            "KEY_ID getenv('AWS_ACCESS_KEY_ID')",
            "SECRET getenv('AWS_SECRET_ACCESS_KEY')",
            "SESSION_TOKEN getenv('AWS_SESSION_TOKEN')",
        ]
    else:
        load = "INSTALL httpfs; LOAD httpfs; INSTALL aws; LOAD aws;"
        who = ["PROVIDER credential_chain", *([f"PROFILE {quote(s3.profile_name)}"] if s3.profile_name else [])]
    return f"{load}\nCREATE OR REPLACE SECRET {_SECRET} (TYPE s3, {', '.join([*who, *where])});"


def _prepare_s3(connection: duckdb.DuckDBPyConnection, access: S3Access) -> None:
    connection.execute(f"LOAD {quote(str(_httpfs()))}")
    connection.execute(f"SET http_retries = {_HTTP_RETRIES}")
    # Two clients, two switches; the extension verifies in one of them by default.
    connection.execute(f"SET enable_curl_server_cert_verification = {access.verify}")
    connection.execute(f"SET enable_server_cert_verification = {access.verify}")
    if access.ca_bundle and access.verify:
        connection.execute(f"SET ca_cert_file = {quote(access.ca_bundle)}")
    parts = ["TYPE s3", *_who(access), *_where(access)]
    connection.execute(f"CREATE SECRET {_SECRET} ({', '.join(parts)})")


def _who(access: S3Access) -> list[str]:
    try:
        credentials = access.session.get_credentials()
        if credentials is None:
            return []
        frozen = credentials.get_frozen_credentials()
    except BotoCoreError as error:
        raise InvalidSettings(f"AWS credentials cannot be read: {error}") from None
    named = {"KEY_ID": frozen.access_key, "SECRET": frozen.secret_key, "SESSION_TOKEN": frozen.token}
    return [f"{name} {quote(value)}" for name, value in named.items() if value]


def _where(access: S3Access) -> list[str]:
    parts = urlsplit(access.endpoint_url)
    return [
        f"REGION {quote(access.region)}",
        f"ENDPOINT {quote(parts.netloc + parts.path.rstrip('/'))}",
        "URL_STYLE 'path'",
        f"USE_SSL {'false' if access.is_http else 'true'}",
    ]


def _httpfs() -> Path:
    package = find_spec("duckdb_extension_httpfs")
    for folder in (package.submodule_search_locations or []) if package else []:
        path = Path(folder, "extensions", f"v{duckdb.__version__}", "httpfs.duckdb_extension")
        if path.is_file():
            return path
    raise InvalidSettings(
        f"DuckDB {duckdb.__version__} reads S3 with an extension of its very version: "
        f"pip install duckdb-extension-httpfs=={duckdb.__version__}"
    )
