"""The release log: what `current` reads. Entries are appended, never changed; the highest sequence is current."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from batch_assets.domain.errors import UnknownVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedObject:
    """One Parquet object of a layer."""

    key: str
    digest: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One version's results in a release. The newest layer that knows a record wins."""

    version: str
    objects: tuple[ReleasedObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One entry. `checks` are the gates' one-line verdicts at the time; `published_at` is ISO 8601 UTC."""

    sequence: int
    job: str
    version: str
    layers: tuple[Layer, ...]
    reason: str
    published_at: str
    checks: Mapping[str, str]
    rolled_back_to: int | None = None

    @property
    def rows(self) -> int:
        """Rows in all layers."""
        return sum(item.rows for layer in self.layers for item in layer.objects)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives the release back."""
        return {**asdict(self), "rows": self.rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Release:
        """Build a release from `to_json`'s form."""
        layers = tuple(
            Layer(version=layer["version"], objects=tuple(ReleasedObject(**item) for item in layer["objects"]))
            for layer in value["layers"]
        )
        return cls(
            sequence=value["sequence"],
            job=value["job"],
            version=value["version"],
            layers=layers,
            reason=value["reason"],
            published_at=value["published_at"],
            checks=value["checks"],
            rolled_back_to=value["rolled_back_to"],
        )


def next_sequence(log: Sequence[Release]) -> int:
    """Return the sequence number of the next release; the first is 1."""
    return max((release.sequence for release in log), default=0) + 1


def is_current(log: Sequence[Release], version: str) -> bool:
    """Say whether `version` is what the newest release reads, so that publishing it again would change nothing."""
    newest = max(log, key=lambda release: release.sequence, default=None)
    return newest is not None and newest.version == version


def rollback(log: Sequence[Release], *, to: int | None, reason: str, published_at: str) -> Release:
    """Return the release that appends an older one again.

    Args:
        log: every release of the job.
        to: the sequence to return to; None means the newest release of another version than the current one.
        reason: what the log shows.
        published_at: ISO 8601 UTC.

    Raises:
        UnknownVersion: there is no such release.
    """
    ordered = sorted(log, key=lambda release: release.sequence)
    if not ordered:
        raise UnknownVersion("nothing was published yet, so there is nothing to roll back")
    newest = ordered[-1]
    if to is None:
        candidates = [release for release in ordered if release.version != newest.version]
    else:
        candidates = [release for release in ordered if release.sequence == to]
    if not candidates:
        wanted = "an earlier version" if to is None else f"release {to}"
        raise UnknownVersion(f"{wanted} is not in the log; it has releases 1 to {newest.sequence}")
    target = candidates[-1]
    return Release(
        sequence=newest.sequence + 1,
        job=target.job,
        version=target.version,
        layers=target.layers,
        reason=reason,
        published_at=published_at,
        checks=target.checks,
        rolled_back_to=target.sequence,
    )
