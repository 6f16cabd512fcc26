"""What `diff` compares: paths or versions, and the columns that both sides share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from batch_assets.cli.own_input import OwnInput, with_own_input
from batch_assets.cli.targets import CURRENT, declared_spec, find_version, is_version
from batch_assets.domain.errors import UserError
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import InputColumns, JobSpec
from resources.platform import Platform
from resources.snapshots.delta_manifest import source_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two snapshots: `name` is what the user wrote. `notes` are what is to be known of it, a sentence each."""

    name: str
    snapshot: Snapshot
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two snapshots and how they are read: what a job with these columns and prompt sees of both."""

    old: Side
    new: Side
    columns: InputColumns
    prompt_fields: tuple[str, ...]


def compare(platform: Platform, old: str, new: str, job: str | None, own: OwnInput) -> Comparison:
    """Return what is compared with what; paths are snapshotted, versions stand for the source that they answer.

    Raises:
        UserError: a side is not there, lacks a column, or the sides cannot be compared; the message says which.
    """
    names = (old, new)
    registered = [_registered(platform, name, job) for name in names]
    spec = _declared(names, registered, own) if any(registered) else _common_spec(names, job, own, platform)
    sides = []
    for name, entry in zip(names, registered, strict=True):
        sides.append(_taken(platform, name, spec) if entry is None else Side(name=name, snapshot=entry[1]))
    return Comparison(
        old=sides[0], new=sides[1], columns=spec.input.columns, prompt_fields=tuple(dict.fromkeys(spec.prompt.fields()))
    )


def _registered(platform: Platform, name: str, job: str | None) -> tuple[JobSpec, Snapshot] | None:
    """Return a version's spec and the source that it answers, or None if the name is a path's."""
    if name != CURRENT and not is_version(name):
        return None
    found_job, version = find_version(platform, name, job) if name == CURRENT else find_version(platform, name)
    entry = platform.registry.read(found_job, version)
    return entry.spec, source_of(platform.store, entry.snapshot)


def _common_spec(names: Sequence[str], job: str | None, own: OwnInput, platform: Platform) -> JobSpec:
    """Return the declared job over the columns that both paths have; a column that was asked for must be in both."""
    from resources.snapshots.peek import column_names

    present = [column_names(name, platform.s3) for name in names]
    base, _ = declared_spec(job)
    for name, columns in zip(names, present, strict=True):
        with_own_input(base, replace(own, uri=name), columns)  # its errors name the path
    shared = [name for name in present[0] if name in present[1]]
    return with_own_input(base, replace(own, uri=names[1]), shared)[0]


def _declared(names: Sequence[str], registered: Sequence[tuple[JobSpec, Snapshot] | None], own: OwnInput) -> JobSpec:
    """Return the spec of the versions: what was registered was read with its own columns, whatever options say."""
    if own.given:
        raise UserError(
            "--id-column, --text-column, --carry and the like are for two paths: a version is compared by the columns "
            "and the prompt that it was registered with"
        )
    specs = [entry[0] for entry in registered if entry is not None]
    if any(_reads(spec) != _reads(specs[0]) for spec in specs):
        raise UserError(
            f"{names[0]} and {names[1]} read other columns or show other ones to the model: {_reads(specs[0])} and "
            f"{_reads(specs[1])}; compare their sources by path"
        )
    return specs[-1]


def _reads(spec: JobSpec) -> str:
    return f"{', '.join(spec.input.columns.all)} (in the prompt: {', '.join(spec.prompt.fields())})"


def _taken(platform: Platform, name: str, spec: JobSpec) -> Side:
    from resources.snapshots.take import take_snapshot

    source = replace(spec.input, uri=name, limit=None)
    taken = take_snapshot(source, platform.store, s3=platform.s3)
    return Side(name=name, snapshot=taken.snapshot, notes=taken.notes)
