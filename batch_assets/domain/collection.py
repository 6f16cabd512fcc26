"""Retention's decision on each stored object: why it may go, or that it stays. The values are in `retention`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from batch_assets.domain.release import Release
from batch_assets.domain.retention import (
    COMPACTED,
    DAY_S,
    Doomed,
    Policy,
    Stored,
    Verdict,
    VersionFacts,
    folder_of,
    kept_releases,
)


def decide(
    policy: Policy,
    *,
    now_s: float,
    job: str,
    log: Sequence[Release],
    versions: Sequence[VersionFacts],
    candidate: str | None,
    foreign_folders: frozenset[str],
    stored: Iterable[Stored],
) -> Verdict:
    """Say what of a job is kept and what may be deleted.

    Args:
        policy: how long things are kept.
        now_s: now, in seconds since 1970.
        job: the job.
        log: every release of it.
        versions: every registered version of it.
        candidate: the newest registered version.
        foreign_folders: folders below `snapshots/` that other jobs' versions read.
        stored: the job's objects (staging, results, dead letters, registry) and everything below `snapshots/`.
    """
    sequences = kept_releases(log, policy, now_s=now_s, margin_s=policy.margin_s)
    kept = [release for release in log if release.sequence in sequences]
    why = _kept_versions(policy, now_s, kept, versions, candidate)
    folded = {name for release in kept for layer in release.layers for name in layer.folds} - why.keys()
    judge = _Judge(
        read=frozenset(item.key for release in kept for layer in release.layers for item in layer.named),
        versions={item.version: item for item in versions},
        why=why,
        folded=folded,
        published={release.version for release in log} | {layer.version for entry in log for layer in entry.layers},
        folders=foreign_folders | {name for item in versions if item.version in why for name in item.snapshot_folders},
        left_over_s=now_s - policy.margin_s,
        unused_s=now_s - policy.idle_s,
    )
    doomed = [
        Doomed(key=item.key, size_bytes=item.size_bytes, reason=reason)
        for item in stored
        if item.key not in judge.read and (reason := judge.reason(item, job))
    ]
    return Verdict(
        releases=tuple(sorted(sequences)),
        versions=why | dict.fromkeys(sorted(folded), "its rows are in a compacted layer"),
        removed=tuple(item.version for item in versions if item.version not in why),
        doomed=tuple(sorted(doomed, key=_order)),
    )


def _kept_versions(
    policy: Policy, now_s: float, kept: Sequence[Release], versions: Sequence[VersionFacts], candidate: str | None
) -> dict[str, str]:
    read = {release.version for release in kept} | {layer.version for release in kept for layer in release.layers}
    found = {}
    for item in versions:
        if item.version in read:
            found[item.version] = "a kept release reads it"
        elif item.version == candidate:
            found[item.version] = "it is the candidate"
        elif item.in_work:
            found[item.version] = "a worker holds a shard of it"
        elif item.active_s > now_s - policy.idle_s:
            found[item.version] = f"it was worked on in the last {policy.idle_s / DAY_S:g} days"
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Why an object may go; a sentence, or nothing if it stays."""

    read: frozenset[str]
    versions: Mapping[str, VersionFacts]
    why: Mapping[str, str]
    folded: set[str]
    published: set[str]
    folders: frozenset[str]
    left_over_s: float
    unused_s: float

    def reason(self, item: Stored, job: str) -> str | None:
        kind, _, rest = item.key.partition("/")
        if kind == "snapshots":
            unused = folder_of(item.key) not in self.folders and item.modified_s <= self.unused_s
            return "converted input that no kept version reads" if unused else None
        owner, _, rest = rest.partition("/")
        folder = rest.partition("/")[0]
        if owner != job or kind not in {"staging", "results", "dead_letters", "registry"}:
            return None
        facts = self.versions.get(folder)
        if facts is None:
            return self._nobodys(item, kind, folder)
        if folder in self.why:
            return self._left_over(item, kind, facts)
        if folder in self.folded:
            return "results that a compaction folded" if kind in {"staging", "results"} else None
        return "a version that no kept release reads"

    def _nobodys(self, item: Stored, kind: str, folder: str) -> str | None:
        if kind == "registry" or item.modified_s > self.left_over_s:  # a registration may be under way on old objects
            return None
        if folder.startswith(COMPACTED):
            return "compacted objects that no kept release reads"
        return "objects of a version that is not registered"

    def _left_over(self, item: Stored, kind: str, facts: VersionFacts) -> str | None:
        if not facts.done or facts.version not in self.published:
            return None
        if kind == "staging":
            return "staging of a published version"
        is_shard = item.key.rpartition("/")[2].startswith("shard=")
        if kind in {"results", "dead_letters"} and is_shard and item.key not in facts.outcome_keys:
            old = item.modified_s <= self.left_over_s
            return "written by a worker that had lost its shard" if old else None
        return None


def _order(item: Doomed) -> tuple[int, str]:
    """First what makes the rest visible: then a crash leaves nothing that names an object which is gone.

    The rest of a registration follows at once, because what a crash leaves of it stays: it cannot be told from a
    registration that is under way.
    """
    if item.key.endswith("/spec.json") or (item.key.startswith("snapshots/") and item.key.endswith(".json")):
        return (0, item.key)
    return (1 if item.key.startswith("registry/") else 2, item.key)
