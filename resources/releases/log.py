"""The release log: append-only entries under `releases/<job>/`; the highest sequence is what readers call current.

An entry is written with a put that fails if the number is taken, and it names every object with its digest. So a
release appears whole or not at all, and of two publishers one appends and the other is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from batch_assets.domain.canonical import canonical_json
from batch_assets.domain.errors import ObjectConflict, ObjectMissing, ReleaseRaced
from batch_assets.domain.part import release_key
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.release import (
    Layer,
    Release,
    check_base,
    is_current,
    next_sequence,
    rollback,
    stacked,
)
from batch_assets.domain.retention import Policy, kept_releases, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What stands now. `appended` is False where nothing was written, because it stood already."""

    release: Release
    appended: bool


class ReleaseLog:
    """One job's releases in a result store."""

    def __init__(self, store: ObjectStore, job: str) -> None:
        self._store = store
        self.job = job

    def entries(self) -> list[Release]:
        """Return every release, newest first."""
        return [self._read(key) for key in self._keys()]

    def current(self) -> Release | None:
        """Return the newest release, or None before the first. Reads one entry, however long the log is."""
        return next((self._read(key) for key in self._keys()), None)

    def get(self, sequence: int) -> Release | None:
        """Return one release, or None if there is none of that number."""
        try:
            return self._read(release_key(self.job, sequence))
        except ObjectMissing:
            return None

    def publish(
        self,
        version: str,
        layers: Sequence[Layer],
        *,
        reason: str,
        checks: Mapping[str, str],
        published_at: str,
        base: int | None = None,
    ) -> Published:
        """Append a release of `version`; if it is current already, append nothing and say so.

        The caller has checked the gates: `releases.publish.publish_version` does. With `base`, the one layer given is a
        delta, and lies on the layers of what is current.

        Raises:
            BaseMoved: something was published since release `base`.
            ReleaseRaced: another publisher took the number; look at the log before trying again.
        """
        newest = self.current()
        log = [newest] if newest else []
        if is_current(log, version, base):
            return Published(release=log[0], appended=False)
        if base is not None:
            (delta,) = layers
            layers = stacked(delta, check_base(self.job, newest, base, self.get).layers)
        return self._append(
            Release(
                sequence=next_sequence(log),
                job=self.job,
                version=version,
                layers=tuple(layers),
                reason=reason,
                published_at=published_at,
                checks=dict(checks),
                base=base,
            )
        )

    def succeed(
        self, old: Release, layers: Sequence[Layer], *, reason: str, published_at: str, compacts: int | None = None
    ) -> Published:
        """Append `old`, which was current a moment ago, with other layers. `compacts` says that its rows are the same.

        Raises:
            ReleaseRaced: something was appended since; nothing was changed.
        """
        return self._append(
            replace(
                old,
                sequence=old.sequence + 1,
                layers=tuple(layers),
                reason=reason,
                published_at=published_at,
                rolled_back_to=None,
                base=None,
                compacts=compacts,
            )
        )

    def rollback(self, to: int | None, *, reason: str, published_at: str, policy: Policy | None = None) -> Published:
        """Append an older release again: number `to`, or the newest one of another version if None.

        Rolling back to the layers that are current already appends nothing. With `policy`, only a release that
        retention keeps now is returned to: `gc` may be deleting the objects of another one at this moment.

        Raises:
            UnknownVersion: there is no such release, or retention does not keep it.
            ObjectMissing: an object of it was deleted since; nothing is appended.
            ReleaseRaced: another publisher took the number.
        """
        log = self.entries()
        kept = kept_releases(log, policy, now_s=seconds(published_at)) if policy else None
        release = rollback(log, to=to, reason=reason, published_at=published_at, kept=kept)
        if release.layers == log[0].layers:
            return Published(release=log[0], appended=False)
        self._check_objects(release)
        return self._append(release)

    def _append(self, release: Release) -> Published:
        key = release_key(self.job, release.sequence)
        try:
            self._store.put_if_absent(key, canonical_json(release.to_json()).encode())
        except ObjectConflict:
            raise ReleaseRaced(
                f"release {release.sequence} of {self.job} was appended by somebody else; {release.version} was not"
            ) from None
        return Published(release=release, appended=True)

    def _check_objects(self, release: Release) -> None:
        named = {item.key for layer in release.layers for item in layer.named}
        folders = {key.rpartition("/")[0] for key in named}
        gone = sorted(named - {item.key for folder in folders for item in self._store.list(folder)})
        if gone:
            raise ObjectMissing(
                f"release {release.rolled_back_to} of {self.job} cannot be read any more: {len(gone)} of its objects "
                f"were deleted (by `gc` or `forget`), the first is {gone[0]}; `batch-assets releases` lists the others"
            )

    def _keys(self) -> Iterator[str]:
        listed = self._store.list(f"releases/{self.job}")
        return (item.key for item in reversed(listed) if item.key.endswith(".json"))

    def _read(self, key: str) -> Release:
        return Release.from_json(orjson.loads(self._store.get(key)))
