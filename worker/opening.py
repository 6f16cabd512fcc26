"""Opening a claimed shard: what stands is taken over, and only the rest is read."""

from __future__ import annotations

import numpy as np

from batch_assets.domain.lease import Lease
from resources.platform import Platform
from resources.prompting.renderer import Renderer
from resources.registry import RegisteredVersion
from resources.results.parquet import fetch_parquet
from resources.results.staging import PartWriter, take_over
from resources.snapshots.read import SnapshotReader
from worker.open_shard import OpenShard


class ShardOpener:
    """Opens shards of one version; the plan and the refused records are read once."""

    def __init__(self, platform: Platform, entry: RegisteredVersion, renderer: Renderer) -> None:
        self._platform = platform
        self._entry = entry
        self._renderer = renderer
        job = entry.spec.name
        self._plan = platform.registry.plan(job, entry.version)
        refused = fetch_parquet(platform.store, platform.registry.refused_key(job, entry.version), ["shard", "row"])
        # Sorted by shard, then row. Arrays, not sets: a plan may refuse millions.
        self._refused_shard = refused.column("shard").to_numpy()
        self._refused_row = refused.column("row").to_numpy()
        self._reader = SnapshotReader(entry.snapshot, entry.spec.input.columns, s3=platform.s3)
        self._field_names = ("text", *entry.spec.input.columns.carry)

    def open(self, lease: Lease) -> OpenShard:
        """Fence the shard, and return it with the records that nobody has answered yet.

        Raises:
            LeaseLost: somebody has taken the shard over already. SnapshotChanged: a source object is not the same.
        """
        spec, version = self._entry.spec, self._entry.version
        shard = self._plan.shards[lease.shard]
        taken = take_over(self._platform.store, spec.name, lease)
        rows = self._reader.read_shard(shard, skip=self._refused(lease.shard) | taken.committed)
        opened = OpenShard(
            lease,
            shard,
            rows,
            self._renderer,
            self._field_names,
            PartWriter(self._platform.store, spec, lease),
            taken.parts,
            self._platform.table.tries(version, lease.shard),
        )
        opened.committed_results = len(taken.answered)
        opened.committed_dead = len(taken.buried)
        return opened

    def _refused(self, shard: int) -> frozenset[int]:
        first, last = np.searchsorted(self._refused_shard, [shard, shard + 1])
        return frozenset(self._refused_row[first:last].tolist())
