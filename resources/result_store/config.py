"""How S3 is reached, in the words that a user of boto3 and of dagster-aws's S3Resource knows."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Config:
    """Whatever is absent comes from the AWS environment (`AWS_PROFILE`, `AWS_REGION`, web identity and so on).

    `verify` is False (trust any certificate), or the path of a CA bundle. No secret is in this value's text.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    use_ssl: bool = True
    verify: bool | str | None = None
    aws_access_key_id: str | None = field(default=None, repr=False)
    aws_secret_access_key: str | None = field(default=None, repr=False)
    aws_session_token: str | None = field(default=None, repr=False)
