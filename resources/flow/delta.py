"""A night's delta: the new, changed and unusable rows of a new source, as a snapshot of its own, and what is gone.

Everything lies under `snapshots/<digest of what it was made from>/`:

    rows-<digest>.parquet        the rows, in the converted form: planned and read like any other snapshot
    tombstones-<digest>.parquet  column `record_id`: ids that the old source has and the new one does not, sorted
    source-<digest>.json         the whole new source snapshot: what the next night is compared with (its contents are
                                 kept beside it, see `resources.snapshots.contents`)
    manifest.json                names all of them, and the version that was compared with; put last

An unusable row of the new source (without an id, or of an id that either source gives several times) is in the delta,
so that planning judges it: it becomes a dead letter, or, of twins with the same content, the first one is answered. An
id that one of the old source's rows had and only unusable rows of the new one have is no tombstone: what the delta says
of it, a result or a dead letter, is what hides the old answer.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from batch_assets.domain.canonical import canonical_json, digest_of, digest_of_bytes, short
from batch_assets.domain.changes import Changes, refuses, skip_reason
from batch_assets.domain.errors import ObjectConflict
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from batch_assets.domain.spec import JobSpec
from resources.platform import Platform
from resources.snapshots.contents import may_vanish, read_contents, write_contents
from resources.snapshots.delta_manifest import MARK, Delta, delta_prefix, read_manifest
from resources.snapshots.delta_objects import select_rows, write_ids
from resources.snapshots.diff import Diff, diff_snapshots
from resources.snapshots.verify import verify_snapshot

FORM = 1  # raised when the form of a delta changes


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
        SnapshotChanged: a source object is not any more what its snapshot recorded, and its contents were not kept:
            the old source cannot be compared with anything, only a full version can follow.
        InputError: an object is damaged. StoreFull, StoreUnavailable: as the store says.
    """
    digest = _digest(spec, old, new, base)
    standing = read_manifest(platform.store, digest)
    if standing is not None:
        refusal = refuses(standing.changes, lost_share_max)
        return NoDelta(reason=refusal, refused=True, changes=standing.changes) if refusal else standing
    with diff_snapshots(
        old,
        new,
        spec.input.columns,
        spec.prompt.fields(),
        old_contents=read_contents(platform.store, old, spec.input.columns, spec.prompt.fields()),
        s3=platform.s3,
        memory_limit=platform.settings.duckdb_memory,
    ) as diff:
        refusal = refuses(diff.changes, lost_share_max)
        reason = refusal or skip_reason(diff.changes)
        if reason:
            return NoDelta(reason=reason, refused=refusal is not None, changes=diff.changes)
        _write(platform, spec, new, diff, base, digest)
    written = read_manifest(platform.store, digest)
    assert written is not None  # noqa: S101  # the manifest was put a moment ago
    return written


def keep_contents(platform: Platform, spec: JobSpec, snapshot: Snapshot) -> None:
    """Keep what a full version's source says, if it may be written over before the first night looks at it.

    One pass over the source; nothing is done where it is kept already, or lies in the result store anyway.

    Raises:
        SnapshotChanged: a source object is not any more what the snapshot recorded. InputError: one is damaged.
    """
    columns, fields = spec.input.columns, spec.prompt.fields()
    if not may_vanish(snapshot) or read_contents(platform.store, snapshot, columns, fields) is not None:
        return
    nothing = Snapshot(uri=snapshot.uri, objects=())
    memory_limit = platform.settings.duckdb_memory
    with diff_snapshots(nothing, snapshot, columns, fields, s3=platform.s3, memory_limit=memory_limit) as diff:
        write_contents(platform.store, snapshot, columns, fields, diff.contents())


def _digest(spec: JobSpec, old: Snapshot, new: Snapshot, base: str) -> str:
    """Name a delta by all that decides which rows it has, and by the version whose results it continues."""
    columns = asdict(spec.input.columns)
    compared = {"old": old.digest, "new": new.digest, "columns": columns, "prompt": sorted(set(spec.prompt.fields()))}
    return digest_of({"form": FORM, "base": base, **compared})


def _write(platform: Platform, spec: JobSpec, new: Snapshot, diff: Diff, base: str, digest: str) -> None:
    """Put every object, then the manifest. Their names hold their digests: whatever an earlier try left is no harm."""
    store, prefix = platform.store, delta_prefix(digest)
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
    verify_snapshot(new, platform.s3)  # once more: it was read a second time
    if may_vanish(new):
        write_contents(store, new, spec.input.columns, spec.prompt.fields(), diff.contents())
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
