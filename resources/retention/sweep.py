"""Deleting what retention gives up, in an order in which a crash or a release in between does no harm."""

from __future__ import annotations

from dataclasses import replace

from batch_assets.domain.collection import decide
from batch_assets.domain.ports import ObjectStore, ShardTable
from batch_assets.domain.retention import Policy, Verdict
from resources.registry import Registry
from resources.releases.log import ReleaseLog
from resources.retention.facts import foreign_folders, stored_objects, version_facts


def sweep(
    store: ObjectStore,
    registry: Registry,
    table: ShardTable,
    job: str,
    policy: Policy,
    *,
    now_s: float,
    delete: bool = False,
) -> Verdict:
    """Decide what of a job may go and, with `delete`, delete it; return what was decided, or what was deleted.

    In this order: the shard table forgets the versions that go, which it refuses if one is in work or was worked on
    (a publication counts as work), so nobody can claim or publish them any more; then the log is read again, and what a
    release of the meantime reads stays; then a version's registration goes, and after it its objects. A crash leaves
    less to do for the next time.

    Args:
        store: the result store; its clock says how old an object is.
        registry: the registered versions.
        table: the shard table.
        job: the job.
        policy: how long things are kept.
        now_s: now, in seconds since 1970.
        delete: False changes nothing.
    """
    log = ReleaseLog(store, job)
    versions = version_facts(store, registry, table, job, now_s)
    stored = list(stored_objects(store, job))
    foreign = foreign_folders(store, registry, job)

    def judged() -> Verdict:
        return decide(
            policy,
            now_s=now_s,
            job=job,
            log=log.entries(),
            versions=versions,
            candidate=versions[-1].version if versions else None,
            foreign_folders=foreign,
            stored=stored,
        )

    first = judged()
    if not delete:
        return first
    busy = {version for version in first.removed if not table.remove(version, idle_s=policy.idle_s)}
    versions = [replace(item, in_work=item.in_work or item.version in busy) for item in versions]
    again = judged()
    agreed = {item.key for item in first.doomed}
    doomed = tuple(item for item in again.doomed if item.key in agreed)
    for item in doomed:
        store.delete(item.key)
    return replace(again, doomed=doomed)
