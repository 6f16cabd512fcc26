"""Buckets: credentials, region and endpoint as boto3 resolves them, handed to obstore."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, SSLError
from botocore.exceptions import ConnectionError as NoConnection
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import S3Store

from batch_assets.domain.errors import InvalidSettings, StoreUnavailable
from resources.result_store.config import S3Config

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from obstore.store import ClientConfig, RetryConfig

# boto3 renews credentials ten minutes before they end at the latest, so what it hands out lives longer than this.
_CREDENTIALS_FOR = timedelta(minutes=5)
_SERVER_ERROR = 500
_WHAT_TO_DO = {
    "NoSuchBucket": "create it (`aws s3 mb s3://{bucket}`) or correct BATCH_ASSETS_RESULT_STORE",
    "AccessDenied": "the identity needs s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject",
    "InvalidAccessKeyId": "the access key is not known there; check AWS_ACCESS_KEY_ID or AWS_PROFILE",
    "SignatureDoesNotMatch": "the secret is not the access key's; check AWS_SECRET_ACCESS_KEY or AWS_PROFILE",
    "ExpiredToken": "the credentials are expired; log in again (`aws sso login`)",
    "AuthorizationHeaderMalformed": "the bucket is in another region; set AWS_REGION to the bucket's",
    "PermanentRedirect": "the bucket is in another region; set AWS_REGION to the bucket's",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """How S3 is reached once everything is resolved. `ca_bundle` is a file's path; `session` holds the credentials."""

    session: boto3.Session
    endpoint_url: str
    region: str
    verify: bool
    ca_bundle: str | None
    client: S3Client

    @property
    def is_http(self) -> bool:
        """Whether the endpoint is without TLS."""
        return self.endpoint_url.startswith("http://")


def resolve(config: S3Config | None) -> S3Access:
    """Resolve a configuration against the AWS environment. No request is made to S3; it takes about 0.3 s, so keep it.

    Raises:
        InvalidSettings: an unknown profile, half of a key pair, an endpoint that is no URL.
    """
    config = config or S3Config()
    if bool(config.aws_access_key_id) != bool(config.aws_secret_access_key):
        raise InvalidSettings("S3: an access key and its secret come together, or not at all (a profile, a role)")
    try:
        core = botocore.session.Session(profile=config.profile_name or None)
        core.register_component("data_loader", _service_files())
        region = config.region_name or os.environ.get("AWS_REGION") or core.get_config_variable("region") or "us-east-1"
        session = boto3.Session(
            botocore_session=core,
            region_name=region,
            aws_access_key_id=config.aws_access_key_id,
            aws_secret_access_key=config.aws_secret_access_key,
            aws_session_token=config.aws_session_token,
        )
        client = session.client(
            "s3",
            endpoint_url=config.endpoint_url or None,
            use_ssl=config.use_ssl,
            verify=config.verify,
            config=Config(
                s3={"addressing_style": "path"},
                connect_timeout=5,
                read_timeout=10,
                retries={"mode": "standard", "total_max_attempts": 5},
            ),
        )
        ca_bundle = config.verify if isinstance(config.verify, str) else core.get_config_variable("ca_bundle")
    except (BotoCoreError, ValueError) as error:
        raise InvalidSettings(f"S3: {error}; see AWS_PROFILE, AWS_ENDPOINT_URL and the AWS files") from None
    return S3Access(
        session=session,
        endpoint_url=client.meta.endpoint_url,
        region=region,
        verify=config.verify is not False,
        ca_bundle=ca_bundle or None,
        client=client,
    )


@functools.cache
def _service_files() -> botocore.loaders.Loader:
    """Return botocore's descriptions of the services; reading them is most of the time that a session takes."""
    return botocore.loaders.create_loader()


def open_bucket(
    access: S3Access, bucket: str, *, prefix: str | None = None, retry_config: RetryConfig | None = None
) -> S3Store:
    """Return obstore's view of a bucket; credentials are renewed as boto3 renews them. No request is made.

    Raises:
        InvalidSettings: there are no credentials.
    """
    if access.session.get_credentials() is None:
        raise InvalidSettings(
            f"s3://{bucket}: no AWS credentials found; set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or give the pod a service account with a role"
        )
    return S3Store(
        bucket,
        prefix=prefix or None,
        region=access.region,
        endpoint=access.endpoint_url,
        aws_endpoint_url_s3=access.endpoint_url,  # else the variable of this name would win over a configured endpoint
        virtual_hosted_style_request=False,
        credential_provider=Boto3CredentialProvider(access.session, ttl=_CREDENTIALS_FOR),
        client_options=_client_options(access),
        retry_config=retry_config,
    )


def check_bucket(access: S3Access, bucket: str, prefix: str) -> None:
    """Prove that a bucket can be listed.

    Raises:
        InvalidSettings: it cannot, and the message says what to do. StoreUnavailable: it does not answer.
    """
    try:
        access.client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    except ClientError as error:
        raise _explained(error, access, bucket) from None
    except SSLError as error:
        raise InvalidSettings(
            f"s3://{bucket}: {access.endpoint_url} has a certificate that is not trusted; set AWS_CA_BUNDLE ({error})"
        ) from None
    except (NoConnection, HTTPClientError) as error:
        raise StoreUnavailable(
            f"s3://{bucket}: {access.endpoint_url} does not answer; check AWS_ENDPOINT_URL and AWS_REGION ({error})"
        ) from None
    except BotoCoreError as error:
        raise InvalidSettings(f"s3://{bucket}: {error}") from None


def _client_options(access: S3Access) -> ClientConfig:
    options: ClientConfig = {
        "allow_http": access.is_http,
        "allow_invalid_certificates": not access.verify,
        "connect_timeout": timedelta(seconds=5),
        "timeout": timedelta(seconds=30),
    }
    if access.ca_bundle and access.verify:
        try:
            options["root_certificate"] = Path(access.ca_bundle).read_bytes()
        except OSError as error:
            raise InvalidSettings(f"CA bundle {access.ca_bundle}: {error.strerror}; see AWS_CA_BUNDLE") from None
    return options


def _explained(error: ClientError, access: S3Access, bucket: str) -> InvalidSettings | StoreUnavailable:
    answer: dict[str, Any] = dict(error.response)
    code = answer.get("Error", {}).get("Code", "")
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if status >= _SERVER_ERROR:
        return StoreUnavailable(f"s3://{bucket}: {access.endpoint_url} answers {status} {code}")
    advice = _WHAT_TO_DO.get(code, "check the bucket's name, AWS_ENDPOINT_URL and AWS_PROFILE").format(bucket=bucket)
    return InvalidSettings(f"s3://{bucket} at {access.endpoint_url}: {status} {code}: {advice}")
