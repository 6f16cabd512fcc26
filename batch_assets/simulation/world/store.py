"""The result store as one process sees it: the production store beneath, faults between, and what stands is told."""

from __future__ import annotations

import re
from collections.abc import Callable

import orjson

from batch_assets.domain.part import Base, is_dead_part
from batch_assets.domain.ports import ObjectInfo, ObjectStore
from batch_assets.simulation.world.events import BaseStands, Event, PartStands
from batch_assets.simulation.world.seams import Seams
from resources.results.parquet import read_parquet

Tell = Callable[[type[Event], dict[str, object]], None]

_PLACE = re.compile(r"staging/.*/shard=(\d+)/epoch=(\d+)/(base\.json|.*\.parquet)")


class WorldStore:
    """The `ObjectStore` port. `tell` is called with each part and base at the moment it stands."""

    def __init__(self, store: ObjectStore, seams: Seams, tell: Tell) -> None:
        self._store = store
        self._seams = seams
        self._tell = tell

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write; see the port."""
        return self._seams.write("store", lambda: self._put(key, data))

    def get(self, key: str) -> bytes:
        """Read; see the port."""
        return self._seams.read("store", lambda: self._store.get(key))

    def head(self, key: str) -> ObjectInfo | None:
        """Look up; see the port."""
        return self._seams.read("store", lambda: self._store.head(key))

    def list(self, prefix: str) -> list[ObjectInfo]:
        """List; see the port."""
        return self._seams.read("store", lambda: self._store.list(prefix))

    def delete(self, key: str) -> None:
        """Remove; see the port."""
        self._seams.write("store", lambda: self._store.delete(key))

    def uri(self, key: str) -> str:
        """Return an address; see the port."""
        return self._store.uri(key)

    def _put(self, key: str, data: bytes) -> bool:
        written = self._store.put_if_absent(key, data)
        place = _PLACE.fullmatch(key)
        if written and place is not None:
            shard, epoch = int(place[1]), int(place[2])
            if place[3] == "base.json":
                accepted = Base.from_json(orjson.loads(data)).accepted
                self._tell(BaseStands, {"shard": shard, "epoch": epoch, "accepted": accepted})
            else:
                rows = tuple(read_parquet(data, key).to_pylist())
                self._tell(
                    PartStands, {"key": key, "shard": shard, "epoch": epoch, "dead": is_dead_part(key), "rows": rows}
                )
        return written
