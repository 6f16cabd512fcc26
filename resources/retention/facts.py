"""What retention decides on, gathered: registered versions, their state in the shard table, and what is stored."""

from __future__ import annotations

from collections.abc import Iterator

from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.ports import ObjectStore, ShardTable
from batch_assets.domain.retention import Stored, VersionFacts, folder_of, seconds
from batch_assets.domain.snapshot import Snapshot
from resources.registry import Registry

PLACES = ("registry", "staging", "results", "dead_letters")  # below each: <job>/<version>/
SNAPSHOTS = "snapshots"


def version_facts(
    store: ObjectStore, registry: Registry, table: ShardTable, job: str, now_s: float
) -> list[VersionFacts]:
    """Return a job's registered versions, oldest registration first."""
    found = []
    for _, version in registry.versions(job):
        entry = registry.read(job, version)
        rows = table.shards(version)
        moments = [row.finished_at_s for row in rows if row.finished_at_s is not None]
        moments += [worker.beat_at_s for worker in table.workers(version)]
        found.append(
            VersionFacts(
                version=version,
                active_s=max([seconds(entry.registered_at), *moments]),
                in_work=any(row.state is ShardState.LEASED and (row.expires_at_s or 0) > now_s for row in rows),
                done=bool(rows) and all(row.state is ShardState.DONE for row in rows),
                outcome_keys=frozenset(_outcome_keys(rows)),
                snapshot_folders=snapshot_folders(store, entry.snapshot),
            )
        )
    return found


def snapshot_folders(store: ObjectStore, snapshot: Snapshot) -> frozenset[str]:
    """Return the folders below `snapshots/` of this store that a snapshot's data lie in."""
    root = store.uri(SNAPSHOTS)
    keys = [SNAPSHOTS + item.data_uri.removeprefix(root) for item in snapshot.objects if item.data_uri.startswith(root)]
    return frozenset(folder_of(key) for key in keys)


def foreign_folders(store: ObjectStore, registry: Registry, job: str) -> frozenset[str]:
    """Return the folders below `snapshots/` that other jobs' registered versions read."""
    others = [(name, version) for name, version in registry.versions() if name != job]
    return frozenset(
        folder for name, version in others for folder in snapshot_folders(store, registry.read(name, version).snapshot)
    )


def stored_objects(store: ObjectStore, job: str) -> Iterator[Stored]:
    """Yield the job's objects, and the converted inputs of every job."""
    for folder in (*(f"{place}/{job}" for place in PLACES), SNAPSHOTS):
        for item in store.list(folder):
            yield Stored(key=item.key, size_bytes=item.size_bytes, modified_s=item.modified_at_s)


def _outcome_keys(rows: list[ShardRow]) -> Iterator[str]:
    for row in rows:
        if row.outcome is not None:
            yield row.outcome.result_key
            if row.outcome.dead_key:
                yield row.outcome.dead_key
