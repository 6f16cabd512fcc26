"""A snapshot: an immutable input, named by the digest of its objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from batch_assets.domain.canonical import digest_of, short


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotObject:
    """One object of the input.

    `key` is its place relative to the input's root, `checksum` is `sha256:<hex>` of its bytes or `etag:<value>` where
    a store gives one without reading, `rows` is how many of its rows, from the first, belong to the snapshot.
    `data_uri` is the Parquet that workers read: the source itself if it is Parquet, else the converted copy in the
    result store (`converted`), which holds one row for every line of the source, the unreadable ones included.
    """

    key: str
    size_bytes: int
    checksum: str
    rows: int
    data_uri: str
    converted: bool

    def identity(self) -> dict[str, Any]:
        """What names the content: not where it lies."""
        return {"key": self.key, "size_bytes": self.size_bytes, "checksum": self.checksum, "rows": self.rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An ordered list of objects; a record's position is (object index, row)."""

    uri: str
    objects: tuple[SnapshotObject, ...]

    @property
    def rows(self) -> int:
        """Rows in all objects: the number that results, dead letters and pending records must add up to (I6)."""
        return sum(item.rows for item in self.objects)

    @property
    def digest(self) -> str:
        """Digest of the objects' identities, in order."""
        return digest_of([item.identity() for item in self.objects])

    @property
    def name(self) -> str:
        """`s-` and 12 hex digits."""
        return "s-" + short(self.digest)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives the snapshot back."""
        return {"uri": self.uri, "digest": self.digest, "objects": [asdict(item) for item in self.objects]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Snapshot:
        """Build a snapshot from `to_json`'s form."""
        return cls(uri=value["uri"], objects=tuple(SnapshotObject(**item) for item in value["objects"]))


def limit_rows(objects: Sequence[SnapshotObject], limit: int | None) -> tuple[SnapshotObject, ...]:
    """Keep the first `limit` rows: later objects are dropped, the last one kept is shortened."""
    if limit is None:
        return tuple(objects)
    kept: list[SnapshotObject] = []
    left = limit
    for item in objects:
        if left <= 0:
            break
        rows = min(item.rows, left)
        kept.append(SnapshotObject(**{**asdict(item), "rows": rows}))
        left -= rows
    return tuple(kept)
