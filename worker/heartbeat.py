"""Keeping leases alive while the main thread is busy, and noticing when one is lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from batch_assets.domain.errors import BatchError, LeaseLost, ShardCancelled
from batch_assets.domain.ports import Beat, Clock, ShardTable
from worker.open_shard import OpenShard

SAFETY_SHARE = 0.9  # of the lease: a holder stops this early when it cannot renew


def renew(table: ShardTable, shard: OpenShard, *, ttl_s: float) -> None:
    """Renew a shard's lease with its committed counts; mark the shard if the lease is lost or its version cancelled."""
    try:
        table.renew(shard.lease, results=shard.committed_results, dead_letters=shard.committed_dead, ttl_s=ttl_s)
    except ShardCancelled:
        shard.cancelled = True
    except LeaseLost as error:
        shard.lost = str(error)


class Heartbeat:
    """A thread that renews every `interval_s`; a lease that could not be renewed in time counts as lost.

    `shards` returns the shards to renew now; it is called from this thread.
    """

    def __init__(
        self,
        table: ShardTable,
        shards: Callable[[], list[OpenShard]],
        status: Callable[[], Beat],
        *,
        clock: Clock,
        ttl_s: float,
        interval_s: float,
    ) -> None:
        self._table = table
        self._shards = shards
        self._status = status
        self._clock = clock
        self._ttl_s = ttl_s
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._renewed_s: dict[tuple[int, int], float] = {}
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; no renewal comes after this returns."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self.beat()

    def beat(self) -> None:
        """Renew every open shard once, and say how the worker goes."""
        open_shards = [shard for shard in self._shards() if not shard.lost]
        for shard in open_shards:
            key = (shard.number, shard.lease.epoch)
            before_s = self._clock.monotonic_s()
            self._renewed_s.setdefault(key, before_s)
            try:
                renew(self._table, shard, ttl_s=self._ttl_s)
            except BatchError as error:  # the database is away: go on while the lease surely holds
                if self._clock.monotonic_s() - self._renewed_s[key] > SAFETY_SHARE * self._ttl_s:
                    shard.lost = f"could not be renewed: {error}"
            else:
                self._renewed_s[key] = before_s
        with contextlib.suppress(BatchError):  # a beat is for people; the next one comes
            self._table.beat(self._status())
        live = {(shard.number, shard.lease.epoch) for shard in open_shards}
        self._renewed_s = {key: at for key, at in self._renewed_s.items() if key in live}
