"""The registry: immutable specs, snapshots and plans of job versions, put if absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from batch_assets.domain.canonical import canonical_json, digest_of_bytes, short
from batch_assets.domain.errors import ObjectConflict, ObjectMissing, UnknownVersion
from batch_assets.domain.part import registry_prefix
from batch_assets.domain.plan import Plan
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredVersion:
    """Everything that a version is: read it once, it never changes. `registered_at` is ISO 8601 UTC."""

    version: str
    spec: JobSpec
    snapshot: Snapshot
    registered_at: str


class Registry:
    """Specs, snapshots and plans under `registry/<job>/<version>/` of a result store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def add(self, entry: RegisteredVersion, plan: Plan, refused: bytes) -> bool:
        """Register a version; True if it is new.

        `spec.json` is the one commit point: it names the snapshot, plan and refused records by digest, and is put
        last, so a version that can be seen is whole, and a crash before it leaves nothing that binds the next try. A
        version that stands keeps its own spec: paths, shard size and gates of the first registration hold.
        """
        prefix = registry_prefix(entry.spec.name, entry.version)
        if self.has(entry.spec.name, entry.version):
            return False
        body = {
            "version": entry.version,
            "registered_at": entry.registered_at,
            "spec": entry.spec.to_json(),
            "snapshot": self._put_named(prefix, "snapshot", canonical_json(entry.snapshot.to_json()).encode(), "json"),
            "plan": self._put_named(prefix, "plan", canonical_json(plan.to_json()).encode(), "json"),
            "refused": self._put_named(prefix, "refused", refused, "parquet"),
        }
        try:
            return self._store.put_if_absent(f"{prefix}/spec.json", canonical_json(body).encode())
        except ObjectConflict:  # somebody registered it in the meantime: theirs holds
            return False

    def _put_named(self, prefix: str, name: str, data: bytes, ending: str) -> str:
        key = f"{prefix}/{name}-{short(digest_of_bytes(data))}.{ending}"
        self._store.put_if_absent(key, data)
        return key

    def _body(self, job: str, version: str) -> dict[str, Any]:
        try:
            body: dict[str, Any] = orjson.loads(self._store.get(f"{registry_prefix(job, version)}/spec.json"))
        except ObjectMissing:
            raise UnknownVersion(f"no version {version} of job {job}; `batch-assets versions` lists them") from None
        return {**body, **self._amended(registry_prefix(job, version))}

    def _amended(self, prefix: str) -> dict[str, str]:
        """Return the names that a deletion request put in the place of those in `spec.json`, the newest ones."""
        names: dict[str, str] = {}
        number = 1
        while self._store.head(key := f"{prefix}/amended-{number:04d}.json") is not None:
            names |= orjson.loads(self._store.get(key))
            number += 1
        return names

    def amend(self, job: str, version: str, *, refused: str | None = None, snapshot: Snapshot | None = None) -> None:
        """Say that a version's refused records (by key) or its snapshot's data lie somewhere else now.

        Only where things lie can change: the snapshot must have the same digest.

        Raises:
            ObjectConflict: somebody amends it at the same time; or the snapshot is another one.
        """
        prefix = registry_prefix(job, version)
        names = {} if refused is None else {"refused": refused}
        if snapshot is not None:
            if snapshot.digest != self.read(job, version).snapshot.digest:
                raise ObjectConflict(f"{job} {version}: an amendment would change its input")
            names["snapshot"] = self._put_named(prefix, "snapshot", canonical_json(snapshot.to_json()).encode(), "json")
        number = 1
        while self._store.head(f"{prefix}/amended-{number:04d}.json") is not None:
            number += 1
        self._store.put_if_absent(f"{prefix}/amended-{number:04d}.json", canonical_json(names).encode())

    def has(self, job: str, version: str) -> bool:
        """Whether the version is registered."""
        return self._store.head(f"{registry_prefix(job, version)}/spec.json") is not None

    def versions(self, job: str | None = None) -> list[tuple[str, str]]:
        """Return (job, version) of every registered version, oldest registration first."""
        dated = [(self._body(name, version)["registered_at"], name, version) for name, version in self._names(job)]
        return [(name, version) for _, name, version in sorted(dated)]

    def _names(self, job: str | None) -> list[tuple[str, str]]:
        keys = [item.key for item in self._store.list(f"registry/{job}" if job else "registry")]
        return [(key.split("/")[1], key.split("/")[2]) for key in keys if key.endswith("/spec.json")]

    def read(self, job: str, version: str) -> RegisteredVersion:
        """Return a version.

        Raises:
            UnknownVersion: it is not registered.
        """
        body = self._body(job, version)
        snapshot = orjson.loads(self._store.get(body["snapshot"]))
        return RegisteredVersion(
            version=body["version"],
            spec=JobSpec.from_json(body["spec"]),
            snapshot=Snapshot.from_json(snapshot),
            registered_at=body["registered_at"],
        )

    def plan(self, job: str, version: str) -> Plan:
        """Return a version's plan.

        Raises:
            UnknownVersion: it is not registered.
        """
        return Plan.from_json(orjson.loads(self._store.get(self._body(job, version)["plan"])))

    def refused_key(self, job: str, version: str) -> str:
        """Return the key of the Parquet of records refused at planning (schema: DEAD_LETTER_SCHEMA)."""
        key: str = self._body(job, version)["refused"]
        return key

    def find(self, version: str) -> str:
        """Return the job that a version belongs to.

        Raises:
            UnknownVersion: no job has it.
        """
        for job, name in self._names(None):
            if name == version:
                return job
        raise UnknownVersion(f"no version {version}; `batch-assets versions` lists them")
