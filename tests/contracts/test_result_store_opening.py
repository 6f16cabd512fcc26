"""Opening a store: what cannot work is said at once, with what to do, and without a secret."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from batch_assets.domain.errors import InvalidSettings, StoreUnavailable
from resources.result_store.aws import open_bucket, resolve
from resources.result_store.config import S3Config
from resources.result_store.store import open_result_store
from tests.services.seaweedfs import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedServer


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No AWS settings at all; returns the folder where AWS files are looked for."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


@pytest.mark.parametrize("uri", ["", "gs://bucket", "s3://", "file://elsewhere/x", "s3://bucket/a/../b"])
def test_an_address_that_is_none(uri: str) -> None:
    """The message says which forms there are."""
    with pytest.raises(InvalidSettings, match="result store"):
        open_result_store(uri)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the way, or a read-only place: found when the store is opened, not after an hour of inference."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSettings, match="BATCH_ASSETS_RESULT_STORE"):
        open_result_store(str(tmp_path / "file" / "store"))
    (tmp_path / "locked").mkdir(mode=0o500)
    if os.geteuid() != 0:
        with pytest.raises(InvalidSettings, match="Permission denied"):
            open_result_store(str(tmp_path / "locked"))


def test_a_folder_is_made_and_named_absolutely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path keeps meaning the same folder for DuckDB and for a worker in another working directory."""
    monkeypatch.chdir(tmp_path)
    store = open_result_store("deep/store")
    store.put_if_absent("x", b"1")
    assert store.uri("x") == str(tmp_path / "deep/store/x")
    assert open_result_store(f"file://{tmp_path}/deep%2Fstore").get("x") == b"1"


def test_a_bucket_that_is_not_there(s3_config: S3Config) -> None:
    """The commonest first mistake: the message has the command that mends it."""
    with pytest.raises(InvalidSettings, match="aws s3 mb s3://no-such-bucket"):
        open_result_store("s3://no-such-bucket/prefix", s3_config)


@pytest.mark.usefixtures("bare_environment")
def test_no_credentials(seaweed_server: SeaweedServer) -> None:
    """A pod without a role: the message names the ways to give one."""
    config = S3Config(endpoint_url=seaweed_server.endpoint_url)
    with pytest.raises(InvalidSettings, match="no AWS credentials found; set AWS_PROFILE"):
        open_result_store(f"s3://{BUCKET}", config)


@pytest.mark.parametrize(
    ("key", "secret", "says"),
    [
        (ACCESS_KEY, "wrong-secret", "AWS_SECRET_ACCESS_KEY"),
        ("UNKNOWN", SECRET_KEY, "AWS_ACCESS_KEY_ID"),
        (ACCESS_KEY, "", "come together"),
    ],
)
def test_wrong_credentials(seaweed_server: SeaweedServer, key: str, secret: str, says: str) -> None:
    """The message tells a wrong key from a wrong secret, and shows no secret."""
    config = S3Config(endpoint_url=seaweed_server.endpoint_url, aws_access_key_id=key, aws_secret_access_key=secret)
    with pytest.raises(InvalidSettings, match=says) as caught:
        open_result_store(f"s3://{BUCKET}", config)
    assert not secret or secret not in f"{caught.value!r} {config!r}"


def test_a_server_that_does_not_answer() -> None:
    """Not the user's mistake for certain: a store that restarts is worth another try by whoever started us."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        config = S3Config(
            endpoint_url=f"http://127.0.0.1:{taken.getsockname()[1]}",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        with pytest.raises(StoreUnavailable, match="does not answer; check AWS_ENDPOINT_URL"):
            open_result_store(f"s3://{BUCKET}", config)


@pytest.mark.parametrize("how", ["variables", "service variable", "profile"])
def test_the_aws_environment_is_enough(
    seaweed_server: SeaweedServer, bare_environment: Path, monkeypatch: pytest.MonkeyPatch, s3_uri: str, how: str
) -> None:
    """Whoever has boto3 working has the result store working: variables, or a profile with its endpoint."""
    if how == "profile":
        (bare_environment / "config").write_text(
            f"[profile work]\nregion = us-east-1\nendpoint_url = {seaweed_server.endpoint_url}\n"
            f"aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
        )
        monkeypatch.setenv("AWS_PROFILE", "work")
    else:
        name = "AWS_ENDPOINT_URL_S3" if how == "service variable" else "AWS_ENDPOINT_URL"
        monkeypatch.setenv(name, seaweed_server.endpoint_url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    store = open_result_store(s3_uri)
    assert store.put_if_absent("a", b"1")
    assert store.uri("a") == f"{s3_uri}/a"


@pytest.mark.usefixtures("bare_environment")
def test_what_is_configured_wins_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, s3_uri: str, s3_config: S3Config
) -> None:
    """Obstore reads variables of its own accord: none of them may send our objects elsewhere."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
    assert open_result_store(s3_uri, s3_config).put_if_absent("a", b"1")


@pytest.mark.usefixtures("bare_environment")
def test_region_and_bucket_of_real_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_REGION, which boto3 itself does not read, decides before AWS_DEFAULT_REGION; nobody is asked."""
    config = S3Config(aws_access_key_id="a", aws_secret_access_key="b")
    assert resolve(config).region == "us-east-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert resolve(config).region == "eu-west-1"
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    access = resolve(config)
    assert access.endpoint_url == "https://s3.eu-central-1.amazonaws.com"
    assert open_bucket(access, "bucket").config["endpoint"] == access.endpoint_url


@pytest.mark.usefixtures("bare_environment")
def test_an_unknown_profile_and_a_missing_ca_bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both are files that are not where they should be; the message says which."""
    with pytest.raises(InvalidSettings, match="nobody"):
        open_result_store("s3://bucket", S3Config(profile_name="nobody"))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    with pytest.raises(InvalidSettings, match=r"missing\.pem"):
        open_result_store("s3://bucket", S3Config(aws_access_key_id="a", aws_secret_access_key="b"))
