"""The manifest of a delta: what is in it, what it was compared with, and the whole source that it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from batch_assets.domain.canonical import short
from batch_assets.domain.changes import Changes
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import Snapshot

MARK = "delta"  # the key of a delta's one object without rows; no source's key lacks an ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A delta that stands in the store. `snapshot` may have no rows: then all that happened is deletion.

    `base` is the version whose results it continues, `source` the whole new source, `tombstones_digest` is
    `sha256:<hex>` of the object's bytes.
    """

    base: str
    snapshot: Snapshot
    source: Snapshot
    changes: Changes
    tombstones: int
    tombstones_key: str
    tombstones_digest: str
    manifest_key: str


def delta_prefix(digest: str) -> str:
    """Return where a delta lies; `digest` is that of what it was made from."""
    return f"snapshots/{short(digest, 32)}"


def read_manifest(store: ObjectStore, digest: str) -> Delta | None:
    """Return the delta that was made from what `digest` names, or None if none stands."""
    key = f"{delta_prefix(digest)}/manifest.json"
    if store.head(key) is None:
        return None
    manifest: Mapping[str, Any] = orjson.loads(store.get(key))
    return Delta(
        base=manifest["base"],
        snapshot=Snapshot.from_json(manifest["snapshot"]),
        source=Snapshot.from_json(orjson.loads(store.get(manifest["source"]["key"]))),
        changes=Changes(**manifest["changes"]),
        tombstones=manifest["tombstones"]["rows"],
        tombstones_key=manifest["tombstones"]["key"],
        tombstones_digest=manifest["tombstones"]["digest"],
        manifest_key=key,
    )


def read_delta(store: ObjectStore, snapshot: Snapshot) -> Delta | None:
    """Return the delta that a snapshot is, or None if it is a source of its own."""
    marks = [item for item in snapshot.objects if item.key == MARK]
    return read_manifest(store, marks[0].checksum) if marks else None


def source_of(store: ObjectStore, snapshot: Snapshot) -> Snapshot:
    """Return the whole source that a version's snapshot stands for: a delta's recorded one, or itself."""
    delta = read_delta(store, snapshot)
    return delta.source if delta else snapshot
