"""DuckDB reads what the result store wrote, from a folder and from a real S3 server, without the network."""

from __future__ import annotations

import io
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.errors import InvalidSettings
from batch_assets.domain.ports import ObjectStore
from resources import duck
from resources.result_store.config import S3Config
from resources.result_store.store import ObstoreResultStore, open_result_store
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer


def _put_numbers(store: ObjectStore, key: str, start: int, rows: int) -> str:
    sink = io.BytesIO()
    pq.write_table(pa.table({"number": range(start, start + rows)}), sink)
    store.put_if_absent(key, sink.getvalue())
    return store.uri(key)


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_parquet_of_the_store_is_read_by_name(
    request: pytest.FixtureRequest, tmp_path: Path, s3_config: S3Config, kind: str
) -> None:
    """Our keys hold `=`, a job's name may hold a quote: a list of names is read, each once."""
    store = request.getfixturevalue("s3_store") if kind == "s3" else open_result_store(str(tmp_path))
    uris = [_put_numbers(store, f"it's/shard={number}/part ü.parquet", number * 100, 100) for number in range(3)]
    with duck.connect(s3_config if kind == "s3" else None, threads=2) as connection:
        sql = f"SELECT count(*), sum(number) FROM read_parquet({duck.quote_list(uris)})"
        assert connection.execute(sql).fetchone() == (300, sum(range(300)))


def test_a_slow_down_is_read_through(
    seaweed_server: SeaweedServer, s3_store: ObstoreResultStore, fault_proxy: FaultProxy
) -> None:
    """DuckDB's own retries bridge what S3 answers under load."""
    uri = _put_numbers(s3_store, "part.parquet", 0, 10)
    fault_proxy.fail([Fault.SLOW_DOWN, Fault.DROP_BEFORE], methods=("GET", "HEAD"))
    with duck.connect(seaweed_server.config(fault_proxy.endpoint_url)) as connection:
        assert connection.execute(f"SELECT count(*) FROM read_parquet({duck.quote(uri)})").fetchone() == (10,)
    assert len([fault for _, fault in fault_proxy.seen if fault is not Fault.NONE]) == 2


def test_the_connection_is_fenced_in(tmp_path: Path, s3_config: S3Config) -> None:
    """It downloads no extension, keeps no secret on disk, shows none, holds the memory limit and removes its spill."""
    scratch = tmp_path / "spill"
    with duck.connect(s3_config, memory_limit="60MB", threads=1, temp_directory=str(scratch)) as connection:
        with pytest.raises(duckdb.Error):
            connection.execute("LOAD aws")
        with pytest.raises(duckdb.Error):
            connection.execute("CREATE PERSISTENT SECRET kept (TYPE s3, KEY_ID 'a', SECRET 'b')")
        shown = str(connection.execute("FROM duckdb_secrets()").fetchall())
        assert SECRET_KEY not in shown
        assert ACCESS_KEY in shown
        connection.execute("CREATE TABLE t AS SELECT range AS i, hash(range)::VARCHAR AS h FROM range(2_000_000)")
        assert list(scratch.rglob("duckdb_temp*"))
    assert not list(scratch.rglob("*.tmp"))


def test_two_connections_spill_apart(tmp_path: Path) -> None:
    """Two processes of one machine in one temporary folder must not write each other's files."""
    with duck.connect(temp_directory=str(tmp_path)) as one, duck.connect(temp_directory=str(tmp_path)) as other:
        places = {
            connection.execute("SELECT current_setting('temp_directory')").fetchone() for connection in (one, other)
        }
    assert len(places) == 2


def test_without_credentials_local_files_are_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody without an AWS account runs everything in a folder."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    uri = _put_numbers(open_result_store(str(tmp_path)), "part.parquet", 0, 10)
    with duck.connect(S3Config()) as connection:
        assert connection.execute(f"SELECT count(*) FROM {duck.quote(uri)}").fetchone() == (10,)


def test_another_duckdb_version_is_told_which_package_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB loads an extension of exactly its own version: an upgrade of one alone is explained."""
    monkeypatch.setattr(duckdb, "__version__", "9.9.9")
    with pytest.raises(InvalidSettings, match=r"pip install duckdb-extension-httpfs==9\.9\.9"):
        duck.connect(S3Config(aws_access_key_id="a", aws_secret_access_key="b"))


@pytest.mark.parametrize("offline", [False, True])
def test_the_printed_secret_holds_no_secret(s3_config: S3Config, offline: bool) -> None:  # noqa: FBT001
    """What is printed for a user may be pasted into a ticket."""
    printed = duck.secret_sql(s3_config, offline=offline)
    assert SECRET_KEY not in printed
    assert ACCESS_KEY not in printed
    assert "USE_SSL false" in printed
    assert ("LOAD aws" in printed) is not offline


def test_the_offline_secret_reads_the_store(
    seaweed_server: SeaweedServer, s3_store: ObstoreResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements run as printed; `getenv` is the command line's, so the test lends one to the Python package."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    uri = _put_numbers(s3_store, "part.parquet", 0, 10)
    with duckdb.connect() as connection:
        known = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        cases = " ".join(f"WHEN {duck.quote(name)} THEN {duck.quote(value)}" for name, value in known.items())
        connection.execute(f"CREATE MACRO getenv(name) AS CASE name {cases} ELSE '' END")
        connection.execute(duck.secret_sql(seaweed_server.config(), offline=True))
        assert connection.execute(f"SELECT count(*) FROM read_parquet({duck.quote(uri)})").fetchone() == (10,)


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_quoted_text_is_that_text(text: str) -> None:
    """No object's name can end a literal."""
    assert duckdb.sql(f"SELECT {duck.quote(text)}").fetchone() == (text,)
