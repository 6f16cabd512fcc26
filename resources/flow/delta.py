"""A night's delta: the new, changed and unusable rows of a new source, as a snapshot of its own, and what is gone.

Everything lies under `snapshots/<digest of what it was made from>/`:

    rows-<digest>.parquet        the rows, in the converted form: planned and read like any other snapshot
    tombstones-<digest>.parquet  column `record_id`: ids that the old source has and the new one does not, sorted
    source-<digest>.json         the whole new source snapshot: what the next night is compared with
    manifest.json                names all of them, and the version that was compared with; put last

An unusable row of the new source (without an id, or of an id that either source gives several times) is in the delta,
so that planning judges it: it becomes a dead letter, or, of twins with the same content, the first one is answered. An
id that one of the old source's rows had and only unusable rows of the new one have is no tombstone: what the delta says
of it, a result or a dead letter, is what hides the old answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from batch_assets.domain.canonical import canonical_json, digest_of, digest_of_bytes, short
from batch_assets.domain.changes import Changes, refuses, skip_reason
from batch_assets.domain.errors import ObjectConflict
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from batch_assets.domain.spec import JobSpec
from resources.platform import Platform
from resources.snapshots.delta_objects import select_rows, write_ids
from resources.snapshots.diff import Diff, diff_snapshots

FORM = 1  # raised when the form of a delta changes
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDelta:
    """Why there is no delta: nothing changed, or (`refused`) the new source looks like an accident."""

    reason: str
    refused: bool
    changes: Changes


def make_delta(
    platform: Platform,
    spec: JobSpec,
    old: Snapshot,
    new: Snapshot,
    *,
    base: str,
    lost_share_max: float = 1.0,
) -> Delta | NoDelta:
    """Compare two sources of a job and store the delta between them; the same input gives the same delta.

    Where its manifest stands already, nothing is compared again.

    Args:
        platform: the store, and the memory that DuckDB may use.
        spec: the job, whose columns and prompt say what is compared.
        old: the whole source that `base` answers (`source_of` gives it).
        new: the whole source as it is now.
        base: the version that the delta continues.
        lost_share_max: the share of the old records, 0 to 1, whose loss is still believed.

    Raises:
        SnapshotChanged: a source object is not any more what its snapshot recorded.
        InputError: an object is damaged. StoreFull, StoreUnavailable: as the store says.
    """
    digest = _digest(spec, old, new, base)
    standing = _read(platform.store, digest)
    if standing is not None:
        refusal = refuses(standing.changes, lost_share_max)
        return NoDelta(reason=refusal, refused=True, changes=standing.changes) if refusal else standing
    with diff_snapshots(
        old,
        new,
        spec.input.columns,
        spec.prompt.fields(),
        s3=platform.s3,
        memory_limit=platform.settings.duckdb_memory,
    ) as diff:
        refusal = refuses(diff.changes, lost_share_max)
        reason = refusal or skip_reason(diff.changes)
        if reason:
            return NoDelta(reason=reason, refused=refusal is not None, changes=diff.changes)
        _write(platform, spec, new, diff, base, digest)
    written = _read(platform.store, digest)
    assert written is not None  # noqa: S101  # the manifest was put a moment ago
    return written


def read_delta(store: ObjectStore, snapshot: Snapshot) -> Delta | None:
    """Return the delta that a snapshot is, or None if it is a source of its own."""
    marks = [item for item in snapshot.objects if item.key == MARK]
    return _read(store, marks[0].checksum) if marks else None


def source_of(store: ObjectStore, snapshot: Snapshot) -> Snapshot:
    """Return the whole source that a version's snapshot stands for: a delta's recorded one, or itself."""
    delta = read_delta(store, snapshot)
    return delta.source if delta else snapshot


def _digest(spec: JobSpec, old: Snapshot, new: Snapshot, base: str) -> str:
    """Name a delta by all that decides which rows it has, and by the version whose results it continues."""
    columns = asdict(spec.input.columns)
    compared = {"old": old.digest, "new": new.digest, "columns": columns, "prompt": sorted(set(spec.prompt.fields()))}
    return digest_of({"form": FORM, "base": base, **compared})


def _write(platform: Platform, spec: JobSpec, new: Snapshot, diff: Diff, base: str, digest: str) -> None:
    """Put every object, then the manifest. Their names hold their digests: whatever an earlier try left is no harm."""
    store, prefix = platform.store, _prefix(digest)
    objects = []
    for item in select_rows(new, diff.wanted(), spec.input.columns, platform.s3):
        key = _put(store, f"{prefix}/rows", item.data, "parquet")
        part = f"{item.part}" if item.part else ""
        objects.append(
            SnapshotObject(
                key=f"{new.objects[item.object_index].key}#delta{part}",
                size_bytes=item.text_bytes,
                checksum=digest,
                rows=item.rows,
                data_uri=store.uri(key),
                converted=True,
            )
        )
    manifest_key = f"{prefix}/manifest.json"
    # Without rows, for the digest: two nights of nothing but deletions are two snapshots.
    mark = SnapshotObject(
        key=MARK, size_bytes=0, checksum=digest, rows=0, data_uri=store.uri(manifest_key), converted=True
    )
    tombstones, count = write_ids(diff.gone())
    source = canonical_json(new.to_json()).encode()
    manifest = {
        "job": spec.name,
        "base": base,
        "changes": diff.changes.to_json(),
        "snapshot": Snapshot(uri=new.uri, objects=(*objects, mark)).to_json(),
        "source": {"digest": new.digest, "key": _put(store, f"{prefix}/source", source, "json")},
        "tombstones": {
            "key": _put(store, f"{prefix}/tombstones", tombstones, "parquet"),
            "digest": digest_of_bytes(tombstones),
            "rows": count,
        },
    }
    try:
        store.put_if_absent(manifest_key, canonical_json(manifest).encode())
    except ObjectConflict:  # somebody with another Parquet library was first: theirs holds, the rows are the same
        return


def _put(store: ObjectStore, stem: str, data: bytes, ending: str) -> str:
    key = f"{stem}-{short(digest_of_bytes(data), 32)}.{ending}"
    store.put_if_absent(key, data)
    return key


def _read(store: ObjectStore, digest: str) -> Delta | None:
    key = f"{_prefix(digest)}/manifest.json"
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


def _prefix(digest: str) -> str:
    return f"snapshots/{short(digest, 32)}"
