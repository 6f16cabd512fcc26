"""Parquet objects as one lazy frame, wherever the store is."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from batch_assets.domain.ports import ObjectStore
from resources.result_store.aws import S3Access, resolve
from resources.result_store.config import S3Config


class ObjectScanner:
    """Opens objects of one store with Polars. S3 credentials are asked for at each collect, as boto3 renews them."""

    def __init__(self, store: ObjectStore, s3: S3Config | None = None) -> None:
        self._store = store
        self._s3 = s3
        self._access: S3Access | None = None

    def scan(self, keys: Sequence[str], schema: pa.Schema | None = None) -> pl.LazyFrame:
        """Return the rows of the objects under `keys`, in order.

        Nothing is read until the frame is collected; then only the columns and row groups that the query needs.
        `schema` gives the columns where there are no keys.
        """
        if not keys:
            empty = pl.from_arrow((schema or pa.schema([])).empty_table())
            return empty.lazy() if isinstance(empty, pl.DataFrame) else pl.LazyFrame()
        uris = [self._store.uri(key) for key in keys]
        if not uris[0].startswith("s3://"):
            return pl.scan_parquet(uris, glob=False)
        access = self._access = self._access or resolve(self._s3)
        return pl.scan_parquet(
            uris,
            glob=False,
            storage_options=_storage_options(access),
            credential_provider=lambda: _credentials(access),
        )


def _storage_options(access: S3Access) -> dict[str, str]:
    options = {
        "aws_endpoint_url": access.endpoint_url,
        "aws_region": access.region,
        "aws_allow_http": str(access.is_http).lower(),
        "aws_virtual_hosted_style_request": "false",
    }
    return options if access.verify else {**options, "allow_invalid_certificates": "true"}


def _credentials(access: S3Access) -> tuple[dict[str, str], int | None]:
    found = access.session.get_credentials()
    if found is None:
        return {}, None
    frozen = found.get_frozen_credentials()
    values = {
        "aws_access_key_id": frozen.access_key,
        "aws_secret_access_key": frozen.secret_key,
        "aws_session_token": frozen.token,
    }
    return {name: value for name, value in values.items() if value}, None
