"""Committing parts and finishing shards in order, beside the engine's loop.

One thread does it, in the order in which it was asked, so a shard is finished after its last part; at most
`waiting_max` commits wait, so a store that is slower than the model slows the model instead of filling the memory.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future

import duckdb
import pyarrow as pa

from batch_assets.domain.errors import BatchError, LeaseLost
from batch_assets.domain.ports import ObjectStore, ShardTable
from batch_assets.domain.spec import JobSpec
from resources.results.merge import finish_shard
from resources.results.table_schema import DEAD_LETTER_SCHEMA, result_schema
from worker.heartbeat import renew
from worker.open_shard import OpenShard


class Committer:
    """Writes what a worker has made. Every method is called by the main thread."""

    def __init__(
        self,
        store: ObjectStore,
        table: ShardTable,
        spec: JobSpec,
        executor: Executor,
        *,
        lease_ttl_s: float,
        waiting_max: int = 4,
        duck: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self._store = store
        self._table = table
        self._spec = spec
        self._schema = result_schema(spec)
        self._executor = executor
        self._lease_ttl_s = lease_ttl_s
        self._waiting_max = waiting_max
        self._futures: deque[Future[None]] = deque()
        self._duck = duck if duck is not None else duckdb.connect()
        self.finished: deque[OpenShard] = deque()

    def flush(self, shard: OpenShard) -> None:
        """Commit what is in a shard's buffers."""
        results, dead = shard.results.take(), shard.dead.take()
        if results or dead:
            self._ask(lambda: self._commit(shard, results, dead))

    def finish(self, shard: OpenShard) -> None:
        """Flush, then merge the shard and tell the shard table; it appears in `finished` when it is done."""
        self.flush(shard)
        shard.finishing = True
        self._ask(lambda: self._finish(shard))

    def look(self) -> None:
        """Raise what a commit raised, if one failed.

        Raises:
            BatchError: the store or the shard table failed for longer than their retries last.
        """
        while self._futures and self._futures[0].done():
            self._futures.popleft().result()

    def wait(self) -> None:
        """Wait for every commit; raises as `look`."""
        while self._futures:
            self._futures.popleft().result()

    def settle(self) -> None:
        """Wait for every commit, whatever becomes of it: the worker ends of one that failed."""
        while self._futures:
            with contextlib.suppress(BatchError):
                self._futures.popleft().result()

    def _ask(self, work: Callable[[], None]) -> None:
        self.look()
        while len(self._futures) >= self._waiting_max:
            self._futures.popleft().result()
        self._futures.append(self._executor.submit(work))

    def _commit(self, shard: OpenShard, results: list[dict[str, object]], dead: list[dict[str, object]]) -> None:
        if shard.lost:
            return
        if results:
            shard.writer.commit(pa.Table.from_pylist(results, schema=self._schema))
            shard.committed_results += len(results)
        if dead:
            shard.writer.bury(pa.Table.from_pylist(dead, schema=DEAD_LETTER_SCHEMA))
            shard.committed_dead += len(dead)
        # Renewing with each part shows the progress, and tells a worker that lost its lease before it makes another.
        renew(self._table, shard, ttl_s=self._lease_ttl_s)

    def _finish(self, shard: OpenShard) -> None:
        if shard.lost:
            return
        keys = (*shard.accepted, *shard.writer.keys)
        outcome = finish_shard(self._store, self._duck, self._spec, shard.lease, shard.shard, keys)
        try:
            self._table.complete(shard.lease, outcome)
        except LeaseLost as error:
            shard.lost = str(error)
        else:
            self.finished.append(shard)
