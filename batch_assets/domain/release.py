"""The release log: what `current` reads. Entries are appended, never changed; the highest sequence is current."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from batch_assets.domain.errors import BaseMoved, UnknownVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedObject:
    """One Parquet object of a layer."""

    key: str
    digest: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Results in a release: one version's, or what a compaction folded. The newest layer that knows a record wins.

    `version` is also the folder of `objects`. `hidden` lists records that the layer knows and has no row of, in one
    column `record_id`: deleted ones, and the version's own dead letters, because a changed record that got no result
    must not show its old answer. `folds` are the versions whose rows a compacted layer holds; else it is empty.
    """

    version: str
    objects: tuple[ReleasedObject, ...]
    hidden: ReleasedObject | None = None
    folds: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[ReleasedObject, ...]:
        """Every object that a reader of the layer opens."""
        return (*self.objects, *((self.hidden,) if self.hidden else ()))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Layer:
        """Build a layer from a release's JSON; entries that are older than `hidden` and `folds` have neither."""
        hidden = value.get("hidden")
        return cls(
            version=value["version"],
            objects=tuple(ReleasedObject(**item) for item in value["objects"]),
            hidden=ReleasedObject(**hidden) if hidden else None,
            folds=tuple(value.get("folds", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One entry. `checks` are the gates' one-line verdicts at the time; `published_at` is ISO 8601 UTC.

    `base` is the sequence of the release that a delta was compared with. `compacts` is the sequence of the release
    whose rows, exactly those, this one has in fewer objects.
    """

    sequence: int
    job: str
    version: str
    layers: tuple[Layer, ...]
    reason: str
    published_at: str
    checks: Mapping[str, str]
    rolled_back_to: int | None = None
    base: int | None = None
    compacts: int | None = None

    @property
    def rows(self) -> int:
        """Rows in all layers; where there are several, readers see fewer."""
        return sum(item.rows for layer in self.layers for item in layer.objects)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives the release back."""
        return {**asdict(self), "rows": self.rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Release:
        """Build a release from `to_json`'s form."""
        return cls(
            sequence=value["sequence"],
            job=value["job"],
            version=value["version"],
            layers=tuple(Layer.from_json(layer) for layer in value["layers"]),
            reason=value["reason"],
            published_at=value["published_at"],
            checks=value["checks"],
            rolled_back_to=value["rolled_back_to"],
            base=value.get("base"),
            compacts=value.get("compacts"),
        )


def next_sequence(log: Sequence[Release]) -> int:
    """Return the sequence number of the next release; the first is 1."""
    return max((release.sequence for release in log), default=0) + 1


def is_current(log: Sequence[Release], version: str, base: int | None = None) -> bool:
    """Say whether `version` is what the newest release reads, so that publishing it again would change nothing.

    Two deltas can have the same records and so the same version (two nights with deletions alone have none): they are
    the same release only if they were compared with the same one.
    """
    newest = max(log, key=lambda release: release.sequence, default=None)
    return newest is not None and newest.version == version and (base is None or newest.base == base)


def check_base(job: str, newest: Release | None, base: int, get: Callable[[int], Release | None]) -> Release:
    """Return the newest release, whose layers a delta that was compared with release `base` lies on.

    Compactions since then are no obstacle: their rows are the base's. `get` returns a release of the log.

    Raises:
        BaseMoved: something else was published since, so what the delta says of changes is not true any more.
    """
    release = newest
    while release is not None and release.sequence != base and release.compacts is not None:
        release = get(release.compacts)
    if newest is None or release is None or release.sequence != base:
        stands = f"release {newest.sequence} ({newest.version})" if newest else "nothing"
        raise BaseMoved(
            f"current of {job} is {stands}, not release {base}, which this delta was compared with: "
            "compare the new input with what is current now, and publish that delta"
        )
    return newest


def stacked(delta: Layer, base: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the layers of a delta over those of its base.

    Where the base has a layer of the same version (records that went back to what they were some nights ago), its rows
    stand in the newer one, too: only what it hides is kept. A layer that has neither rows nor hidden records is left
    out.
    """
    again = {delta.version} if delta.objects else set()
    below = [replace(layer, objects=()) if layer.version in again else layer for layer in base]
    return (delta, *(layer for layer in below if layer.named))


def rollback(
    log: Sequence[Release], *, to: int | None, reason: str, published_at: str, kept: Collection[int] | None = None
) -> Release:
    """Return the release that appends an older one again.

    Args:
        log: every release of the job.
        to: the sequence to return to; None means the newest release of another version than the current one.
        reason: what the log shows.
        published_at: ISO 8601 UTC.
        kept: the sequences that retention keeps; None: all of them.

    Raises:
        UnknownVersion: there is no such release, or it is not kept.
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
    if kept is not None and target.sequence not in kept:
        raise UnknownVersion(
            f"release {target.sequence} is older than what retention keeps, and `gc` may delete it at any moment: "
            "raise BATCH_ASSETS_KEEP_RELEASES or BATCH_ASSETS_KEEP_DAYS, here and where `gc` runs, to return to it"
        )
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
