"""What is kept, and what may be deleted: one decision over plain values (see docs/operations.md).

Whatever a kept release reads is kept. A version is kept whole while a kept release reads it, while it is the candidate,
in work, or young; after that everything of it goes. A version whose rows a compacted layer took over keeps what
explains those rows (its registration and its dead letters).

Deleting races with publishing, and the races are closed by time, not by locks: `margin_s` is longer than any
publication or compaction takes. Whoever deletes keeps every release that was kept `margin_s` ago, whoever rolls back
goes to none that is not kept now, and nothing that is younger than `margin_s` counts as left over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from batch_assets.domain.release import Release

DAY_S = 86_400.0
COMPACTED = "c-"  # how the folder of a compacted layer begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long things are kept: releases by number or age, versions that no release reads by their last activity."""

    keep_releases: int = 10
    keep_days: float = 30
    partial_days: float = 7
    margin_s: float = DAY_S

    @property
    def idle_s(self) -> float:
        """How long nobody must have worked on a version before it goes."""
        return max(self.partial_days * DAY_S, self.margin_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFacts:
    """A registered version. `active_s` is when it was registered or last worked on, in seconds since 1970.

    `in_work`: a live lease holds a shard of it. `done`: the shard table has all its shards finished. `outcome_keys` are
    the finished shards' objects, `snapshot_folders` those below `snapshots/` that its input lies in.
    """

    version: str
    active_s: float
    in_work: bool
    done: bool
    outcome_keys: frozenset[str]
    snapshot_folders: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object of the store; `modified_s` is in seconds since 1970."""

    key: str
    size_bytes: int
    modified_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """An object that may be deleted, and why."""

    key: str
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is kept, and what is not.

    `releases` are the sequences that are kept; `versions` says of each kept version why. `removed` are the versions
    that the shard table forgets before anything of them is deleted. `doomed` is in the order in which it must go.
    """

    releases: tuple[int, ...]
    versions: Mapping[str, str]
    removed: tuple[str, ...]
    doomed: tuple[Doomed, ...]


def kept_releases(log: Iterable[Release], policy: Policy, *, now_s: float, margin_s: float = 0.0) -> frozenset[int]:
    """Return the sequences of a job's releases that are kept now or were kept at some moment of the last `margin_s`."""
    newest_first = sorted(log, key=lambda release: release.sequence, reverse=True)
    kept: set[int] = set()
    newer_then = 0  # releases above this one that stood already `margin_s` ago
    for place, release in enumerate(newest_first):
        published_s = seconds(release.published_at)
        if place == 0 or newer_then < policy.keep_releases or published_s > now_s - policy.keep_days * DAY_S - margin_s:
            kept.add(release.sequence)
        newer_then += published_s <= now_s - margin_s
    return frozenset(kept)


def folder_of(key: str) -> str:
    """Return the folder below `snapshots/` that a key lies in."""
    return "/".join(key.split("/")[:2])


def seconds(iso: str) -> float:
    """Return an ISO 8601 moment in seconds since 1970; one without a zone is UTC."""
    moment = datetime.fromisoformat(iso)
    return moment.timestamp() if moment.tzinfo else datetime.fromisoformat(iso + "+00:00").timestamp()
