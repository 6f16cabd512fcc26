"""Parts, bases and object keys: which results count, decided from names alone (I1, I7).

A worker that takes a shard over at epoch N lists what stands and writes `base.json`, which names the parts it
accepts, before it writes anything else. So the visible parts of a shard are: the newest base's list and the parts of
that base's own epoch. Anything else under the shard is late, whoever wrote it, and never counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_PART = re.compile(r".*/shard=(\d+)/epoch=(\d+)/(part|dead)-(\d+)\.parquet")
_BASE = re.compile(r".*/shard=(\d+)/epoch=(\d+)/base\.json")


def registry_prefix(job: str, version: str) -> str:
    """Where a version's immutable spec and plan lie."""
    return f"registry/{job}/{version}"


def staging_prefix(job: str, version: str) -> str:
    """Where the parts of unfinished shards lie."""
    return f"staging/{job}/{version}"


def shard_prefix(job: str, version: str, shard: int) -> str:
    """Where one shard's epochs lie."""
    return f"{staging_prefix(job, version)}/shard={shard:05d}"


def epoch_prefix(job: str, version: str, shard: int, epoch: int) -> str:
    """Where one lease writes."""
    return f"{shard_prefix(job, version, shard)}/epoch={epoch:04d}"


def result_key(job: str, version: str, shard: int, digest: str) -> str:
    """The compact result of a finished shard; the digest is of its bytes."""
    return f"results/{job}/{version}/shard={shard:05d}-{digest.removeprefix('sha256:')[:16]}.parquet"


def dead_result_key(job: str, version: str, shard: int, digest: str) -> str:
    """The compact dead letters of a finished shard."""
    return f"dead_letters/{job}/{version}/shard={shard:05d}-{digest.removeprefix('sha256:')[:16]}.parquet"


def hidden_key(job: str, version: str, digest: str) -> str:
    """The records that a version's layer knows and has no row of; beside its results."""
    return f"results/{job}/{version}/hidden-{digest.removeprefix('sha256:')[:16]}.parquet"


def compacted_key(job: str, folder: str, number: int, digest: str) -> str:
    """One object of a compacted layer; `folder` is the layer's name."""
    return f"results/{job}/{folder}/part-{number:05d}-{digest.removeprefix('sha256:')[:16]}.parquet"


def release_key(job: str, sequence: int) -> str:
    """One entry of the release log."""
    return f"releases/{job}/{sequence:08d}.json"


def audit_key(job: str, at_iso: str, record_digest: str, line_digest: str) -> str:
    """One line of the audit log: a deletion request, named by its time, the digest of the record's id and its own."""
    return f"audit/{job}/{at_iso}-{record_digest[:12]}-{line_digest.removeprefix('sha256:')[:12]}.json"


def shard_of(key: str) -> int:
    """Return the shard of a key below a shard's prefix."""
    return int(key.partition("/shard=")[2].partition("/")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a lease started from: the keys of the parts that it accepts, in order."""

    epoch: int
    accepted: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"epoch": self.epoch, "accepted": list(self.accepted)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Base:
        """Build a base from `to_json`'s form."""
        return cls(epoch=value["epoch"], accepted=tuple(value["accepted"]))


def part_epoch(key: str) -> int | None:
    """Return the epoch of a part or dead-letter part, or None if the key is neither."""
    match = _PART.fullmatch(key)
    return int(match.group(2)) if match else None


def is_dead_part(key: str) -> bool:
    """Say whether a part holds dead letters."""
    match = _PART.fullmatch(key)
    return match is not None and match.group(3) == "dead"


def base_epochs(keys: Iterable[str]) -> dict[int, str]:
    """Return the bases among `keys`, by epoch."""
    return {int(match.group(2)): key for key in keys if (match := _BASE.fullmatch(key))}


def standing_parts(keys: Iterable[str], newest_base: Base | None) -> tuple[str, ...]:
    """Return the parts that count, in order, given a shard's listing and its newest base.

    Before any base there is no part: a lease writes its base first.
    """
    if newest_base is None:
        return ()
    own = sorted(key for key in keys if part_epoch(key) == newest_base.epoch)
    return (*newest_base.accepted, *own)
