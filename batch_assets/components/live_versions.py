"""Which registered versions are assets: the candidate, the published one, the last few. The rest stay registered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.spec import JobSpec
from resources.platform import s3_config
from resources.registry import Registry
from resources.releases.log import ReleaseLog
from resources.result_store.store import open_result_store
from resources.settings import Settings

LIVE_VERSIONS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveName:
    """A version that is an asset, and its part: the candidate is the newest registered one."""

    version: str
    candidate: bool
    published: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveVersion:
    """A registered version as the asset graph shows it. `spec` is the one it was registered with."""

    name: LiveName
    spec: JobSpec
    snapshot: str
    records: int
    refused: int
    shard_keys: tuple[str, ...]
    registered_at: str

    @property
    def version(self) -> str:
        """The job version's name."""
        return self.name.version


def live_names(job: str, store: ObjectStore, pinned: Collection[str] = ()) -> tuple[LiveName, ...]:
    """Return a job's live versions, newest registration first: the last few, the published one and those pinned."""
    newest_first = [version for _, version in reversed(Registry(store).versions(job))]
    release = ReleaseLog(store, job).current()
    published = release.version if release else None
    chosen = [
        version
        for index, version in enumerate(newest_first)
        if index < LIVE_VERSIONS_MAX or version == published or version in pinned
    ]
    return tuple(
        LiveName(version=version, candidate=version == newest_first[0], published=version == published)
        for version in chosen
    )


def live_versions(job: str, settings: Settings) -> tuple[LiveVersion, ...]:
    """Read a job's live versions from the registry, in the order of `live_names`."""
    store = configured_store(settings)
    names = live_names(job, store, pinned(settings))
    return tuple(_read(Registry(store), job, name) for name in names)


def pinned(settings: Settings) -> frozenset[str]:
    """Versions that are assets in this process however old they are: the command line launches any version."""
    return frozenset(settings.pinned_versions.split(",")) - {""}


def configured_store(settings: Settings) -> ObjectStore:
    """Open the result store alone: loading definitions needs no database."""
    return open_result_store(settings.result_store_uri, s3_config(settings))


def _read(registry: Registry, job: str, name: LiveName) -> LiveVersion:
    entry = registry.read(job, name.version)
    plan = registry.plan(job, name.version)
    return LiveVersion(
        name=name,
        spec=entry.spec,
        snapshot=entry.snapshot.name,
        records=plan.records,
        refused=plan.refused,
        shard_keys=tuple(shard.key for shard in plan.shards),
        registered_at=entry.registered_at,
    )
