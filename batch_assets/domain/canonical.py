"""Canonical JSON and digests: one form of a value, so that equal values have equal names."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys and no spaces; the same value gives the same text everywhere."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(value: Any) -> str:
    """Return `sha256:<64 hex>` of the canonical JSON of `value`."""
    return digest_of_bytes(canonical_json(value).encode())


def digest_of_bytes(data: bytes) -> str:
    """Return `sha256:<64 hex>` of `data`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def short(digest: str, length: int = 12) -> str:
    """Return the first `length` hex digits of a `sha256:` digest, for names that people read."""
    return digest.removeprefix("sha256:")[:length]
