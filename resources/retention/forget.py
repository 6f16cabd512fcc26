"""A deletion request: one record leaves everything that is kept, by rewriting the objects that hold it.

In this order, so that a crash anywhere is mended by running it again: new objects are put; the shard table, the
registry and a new release point to them; an audit line is put; the old objects are deleted. What looks for the record
looks at stored objects alone, so whatever an interrupted run left is found again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa

from batch_assets.domain.canonical import canonical_json, digest_of
from batch_assets.domain.errors import RecordInWork
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.part import audit_key, dead_result_key, shard_of
from batch_assets.domain.ports import ObjectStore, ShardTable
from batch_assets.domain.release import Layer, ReleasedObject
from resources.registry import RegisteredVersion, Registry
from resources.releases.log import ReleaseLog
from resources.results.parquet import fetch_parquet
from resources.retention.facts import snapshot_folders
from resources.retention.find import converted_keys, holding_keys, own_sources, with_company
from resources.retention.rewrite import blanked, letters_of, nameless, only, put_table, without
from resources.snapshots.convert import GROUP_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What a deletion request did. `digest` is the SHA-256 of the record's id; the id itself is nowhere.

    `rewritten` maps each object that is gone to the one in its place, if any; `release` is the new one, if current held
    the record; `sources` are the user's own files that still hold it.
    """

    digest: str
    rewritten: dict[str, str | None]
    release: int | None
    sources: tuple[str, ...]


@dataclass(slots=True)
class _Work:
    store: ObjectStore
    registry: Registry
    table: ShardTable
    job: str
    record_id: str
    held: set[str]
    entries: list[RegisteredVersion]
    new: dict[str, ReleasedObject | None] = field(default_factory=dict)


def forget(
    store: ObjectStore,
    registry: Registry,
    table: ShardTable,
    duck: duckdb.DuckDBPyConnection,
    job: str,
    record_id: str,
    *,
    now_iso: str,
) -> Forgotten:
    """Remove a record from a job's results, dead letters, staging, converted inputs, refused and hidden records.

    Releases that name a deleted object cannot be read or rolled back to any more. Running it again changes nothing.

    Args:
        store: the result store.
        registry: the registered versions.
        table: the shard table.
        duck: a connection that reads the store's objects and the sources.
        job: the job.
        record_id: the record.
        now_iso: ISO 8601 UTC, for the release and the audit line.

    Raises:
        RecordInWork: an unfinished version would answer the record, or has; nothing was changed.
        ReleaseRaced: somebody published meanwhile; run it again.
    """
    entries = [registry.read(name, version) for name, version in registry.versions()]
    # Whole folders: what an interrupted run has replaced is named by no version any more.
    mine = [entry for entry in entries if entry.spec.name == job]
    folders = {folder for entry in mine for folder in snapshot_folders(store, entry.snapshot)}
    chunks = [item.key for folder in sorted(folders) for item in store.list(folder)]
    places = [f"{place}/{job}" for place in ("results", "dead_letters", "staging", "registry")]
    keys = [item.key for place in places for item in store.list(place)]
    wanted = [key for key in keys if not key.startswith("registry/") or "/refused-" in key]
    held = holding_keys(duck, store, [*wanted, *chunks], record_id)
    work = _Work(store, registry, table, job, record_id, held, entries)
    _check_settled(work)
    for entry in entries:
        _amend_registration(work, entry)
        for row in table.shards(entry.version) if entry.spec.name == job else ():
            _rewrite_shard(work, entry, row)
    release = _release(work, now_iso)
    gone = with_company(store, held)
    digest = hashlib.sha256(record_id.encode()).hexdigest()
    rewritten = {key: item.key if (item := work.new.get(key)) else None for key in sorted(gone)}
    if rewritten:
        line = {"at": now_iso, "record": f"sha256:{digest}", "objects": rewritten, "release": release}
        store.put_if_absent(audit_key(job, now_iso, digest, digest_of(line)), canonical_json(line).encode())
    for key in rewritten:
        store.delete(key)
    return Forgotten(
        digest=digest, rewritten=rewritten, release=release, sources=own_sources(duck, store, mine, held, record_id)
    )


def _check_settled(work: _Work) -> None:
    for entry in work.entries:
        rows = work.table.shards(entry.version)
        unfinished = {row.shard for row in rows if row.state is not ShardState.DONE}
        staged = {shard_of(key) for key in work.held if key.startswith(f"staging/{work.job}/{entry.version}/")}
        if unfinished & staged or (unfinished and converted_keys(work.store, entry) & work.held):
            raise RecordInWork(
                f"{entry.version} has {len(unfinished)} unfinished shards, and its input or its committed parts hold "
                f"the record: finish it (`batch-assets run {entry.version}`), then run this again"
            )


def _rewrite_shard(work: _Work, entry: RegisteredVersion, row: ShardRow) -> None:
    """Rewrite a finished shard's objects: the record's result becomes a nameless dead letter, so that counts add up."""
    old = row.outcome
    if old is None or not {old.result_key, old.dead_key} & work.held:
        return
    results = fetch_parquet(work.store, old.result_key)
    mine = only(results, work.record_id)
    letters = letters_of(mine, work.registry.plan(work.job, entry.version), entry.snapshot)
    if old.dead_key:
        kept = nameless(fetch_parquet(work.store, old.dead_key), work.record_id)
        letters = kept if not mine else _joined(kept, letters)
    else:
        letters = letters.replace_schema_metadata(results.schema.metadata)
    outcome = old
    if mine:
        done = work.new[old.result_key] = put_table(work.store, old.result_key, without(results, work.record_id))
        outcome = replace(outcome, results=done.rows, result_key=done.key, result_digest=done.digest)
    name = old.dead_key or dead_result_key(work.job, entry.version, row.shard, old.result_digest)
    dead = put_table(work.store, name, letters)
    if old.dead_key:
        work.new[old.dead_key] = dead
    outcome = replace(outcome, dead_letters=dead.rows, dead_key=dead.key, dead_digest=dead.digest)
    work.table.replace_outcome(entry.version, row.shard, old, outcome)


def _amend_registration(work: _Work, entry: RegisteredVersion) -> None:
    """Point a version to a rewritten input and rewritten refused records."""
    job, version = entry.spec.name, entry.version
    refused = work.registry.refused_key(job, version)
    if refused in work.held:
        new = put_table(work.store, refused, nameless(fetch_parquet(work.store, refused), work.record_id))
        work.new[refused] = new
        work.registry.amend(job, version, refused=new.key)
    chunks = converted_keys(work.store, entry) & work.held
    if not chunks:
        return
    for key in chunks - work.new.keys():
        table = blanked(fetch_parquet(work.store, key), work.record_id)
        work.new[key] = put_table(work.store, key, table, row_group_size=GROUP_ROWS)
    uris = {work.store.uri(key): work.store.uri(work.new[key].key) for key in chunks}  # type: ignore[union-attr]
    objects = tuple(replace(item, data_uri=uris.get(item.data_uri, item.data_uri)) for item in entry.snapshot.objects)
    work.registry.amend(job, version, snapshot=replace(entry.snapshot, objects=objects))


def _release(work: _Work, now_iso: str) -> int | None:
    """Append a release that reads the rewritten objects, if what is current names old ones."""
    log = ReleaseLog(work.store, work.job)
    current = log.current()
    if current is None or not any(item.key in work.held for layer in current.layers for item in layer.named):
        return None

    def renewed(item: ReleasedObject) -> ReleasedObject:
        if item.key not in work.held:
            return item
        if work.new.get(item.key) is None:
            work.new[item.key] = put_table(
                work.store, item.key, without(fetch_parquet(work.store, item.key), work.record_id)
            )
        return work.new[item.key] or item

    layers = [
        Layer(
            version=layer.version,
            objects=tuple(map(renewed, layer.objects)),
            hidden=renewed(layer.hidden) if layer.hidden else None,
            folds=layer.folds,
        )
        for layer in current.layers
    ]
    digest = hashlib.sha256(work.record_id.encode()).hexdigest()
    return log.succeed(current, layers, reason=f"forget: {digest[:12]}", published_at=now_iso).release.sequence


def _joined(kept: pa.Table, more: pa.Table) -> pa.Table:
    return pa.concat_tables([kept, more.replace_schema_metadata(kept.schema.metadata)]).combine_chunks()
