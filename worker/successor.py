"""Taking over from workers that died: whoever killed them stands among the first unanswered records (I4).

A record that kills the whole worker process cannot be charged by it. What is left is the shard table's count of unclean
ends and the order in which every owner asks: the suspects go first, in groups that halve with each death, nothing else
is in flight meanwhile, and a group is committed before the next one is asked. A record that is asked alone is charged
before it is asked, and given that back when it answers; before that, the worker shows on another record that it can
answer at all. What remains: a worker that something else kills while it asks a record alone looks like that record's
doing, so a healthy record is buried if this happens to it three times.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from batch_assets.domain.attempt import EngineCrash, Refused, Tries
from batch_assets.domain.errors import LeaseLost
from batch_assets.domain.ports import ShardTable
from batch_assets.domain.suspects import suspect_group, suspects_after
from worker.commits import Committer
from worker.keeper import EngineKeeper
from worker.open_shard import OpenShard, Prepared, Suspicion

log = logging.getLogger("worker")


def charge(table: ShardTable, shard: OpenShard, tries: Mapping[int, Tries]) -> bool:
    """Keep failed tries in the shard table; False, and the shard marked, if its lease is lost."""
    try:
        if tries and not shard.lost:
            table.charge(shard.lease, tries)
    except LeaseLost as error:
        shard.lost = str(error)
    return not shard.lost


class Successor:
    """See the module's docstring. `window` is records in flight at most, as for any worker of the version."""

    def __init__(
        self, table: ShardTable, committer: Committer, keeper: EngineKeeper, *, window: int, part_records_max: int
    ) -> None:
        self._table = table
        self._committer = committer
        self._keeper = keeper
        self._window = window
        self._part_records_max = part_records_max

    def suspect(self, shard: OpenShard) -> None:
        """Mark a shard whose last leases ended uncleanly."""
        ends = shard.lease.unclean_ends
        if not ends:
            return
        left = suspects_after(ends, window=self._window, part_records_max=self._part_records_max)
        shard.suspicion = Suspicion(left=left, group=suspect_group(ends, window=self._window))
        log.warning(
            "shard %05d: its last %d lease(s) ended uncleanly: the next %d records are asked %d at a time",
            shard.number,
            ends,
            left,
            shard.suspicion.group,
        )

    def ask(self, shard: OpenShard, open_shards: Sequence[OpenShard]) -> list[tuple[Prepared, Refused]]:
        """Ask the next group of suspects when nothing is in flight any more; return those that are refused.

        With none left, the shard is like any other.
        """
        suspicion = shard.suspicion
        if suspicion is None or self._keeper.in_flight:
            return []
        for each in open_shards:
            if not each.finishing:
                self._committer.flush(each)
        self._committer.wait()
        if shard.lost or shard.cancelled:
            return []
        self._keeper.start()  # first: a worker that is killed while a model loads was not killed by a record
        if 1 in {suspicion.group, suspicion.left} and not self._keeper.proven:
            witness = shard.witness(shard.lease.unclean_ends)
            if witness is not None:
                return self._put_in_flight(shard, [witness], alone=False)
        places = range(min(suspicion.group, suspicion.left))
        group = [item for _ in places if (item := shard.next()) is not None]
        if not group:
            self._absolve(shard)
            return []
        suspicion.left -= len(group)
        return self._put_in_flight(shard, group, alone=len(group) == 1)

    def cleared(self, shard: OpenShard, prepared: Prepared) -> Tries:
        """Give back what was charged ahead to a record that has answered; return its failed tries."""
        row = prepared.row.row
        if row not in shard.charged_ahead:
            return shard.tries(row)
        before = shard.tries_before(row)
        shard.charged({row: before})
        charge(self._table, shard, {row: before})
        return before

    def _put_in_flight(
        self, shard: OpenShard, group: Sequence[Prepared], *, alone: bool
    ) -> list[tuple[Prepared, Refused]]:
        refused: list[tuple[Prepared, Refused]] = []
        for prepared in group:
            row = prepared.row.row
            if alone:
                shard.charge_ahead(row, shard.tries(row).failed(EngineCrash("asked alone")))
                if not charge(self._table, shard, {row: shard.tries(row)}):
                    return refused
            try:
                self._keeper.ask(shard, prepared)
            except Refused as error:
                refused.append((prepared, error))
        return refused

    def _absolve(self, shard: OpenShard) -> None:
        shard.suspicion = None
        try:
            self._table.absolve(shard.lease)
        except LeaseLost as error:
            shard.lost = str(error)
