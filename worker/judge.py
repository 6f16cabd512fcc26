"""What becomes of each try at a record: a result, another try, or a dead letter; and whose fault a lost one was."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from batch_assets.domain.attempt import EngineCrash, RecordFailure, Verdict, decide
from batch_assets.domain.ports import Clock, EngineOutput, ShardTable
from batch_assets.domain.spec import JobSpec
from resources.snapshots.read import SourceRow
from worker.answers import AnswerReader
from worker.keeper import EngineKeeper
from worker.open_shard import OpenShard, Prepared
from worker.successor import Successor, charge

log = logging.getLogger("worker")


class Judge:
    """Keeps the counts of tries, in the shard and in the shard table, and fills the shard's buffers."""

    def __init__(
        self,
        spec: JobSpec,
        table: ShardTable,
        answers: AnswerReader,
        keeper: EngineKeeper,
        successor: Successor,
        clock: Clock,
    ) -> None:
        self._spec = spec
        self._table = table
        self._answers = answers
        self._keeper = keeper
        self._successor = successor
        self._clock = clock

    def take(self, shard: OpenShard, prepared: Prepared, output: EngineOutput) -> None:
        """Take in what the engine said: a result, or a failed try."""
        try:
            answer = self._answers.read(output)
        except RecordFailure as failure:
            self.fail(shard, prepared, failure, output)
            return
        tries = self._successor.cleared(shard, prepared)
        row = self._answers.result(shard.lease, prepared.row, output, answer, tries, self._clock.wall_s())
        shard.results.add(row, self._clock.monotonic_s())

    def fail(self, shard: OpenShard, prepared: Prepared, failure: RecordFailure, output: EngineOutput | None) -> None:
        """Decide after a failed try: again, again under the larger limit, or a dead letter."""
        row = prepared.row.row
        tries = shard.tries_before(row).failed(failure)
        shard.charged({row: tries})
        spec = self._spec
        has_larger = spec.decoding.max_tokens_retry is not None and not prepared.larger
        verdict = decide(failure, tries.own, attempts_max=spec.limits.attempts_max, has_larger_limit=has_larger)
        if verdict is Verdict.BURY:
            self.bury(shard, prepared.row, failure, output)
            return
        if not charge(self._table, shard, {row: tries}):
            return
        if isinstance(failure, EngineCrash):
            self._keeper.again(shard, prepared)
        else:
            shard.again(prepared, larger=verdict is Verdict.RETRY_LARGER)

    def lost(self, lost: Sequence[tuple[OpenShard, Prepared]]) -> None:
        """Count a try that infrastructure took from each record; it is nobody's own fault."""
        rows: dict[OpenShard, list[int]] = {}
        for shard, prepared in lost:
            rows.setdefault(shard, []).append(prepared.row.row)
        for shard, of_shard in rows.items():
            tries = {row: shard.tries_before(row).lost() for row in of_shard}
            shard.charged(tries)
            charge(self._table, shard, tries)

    def bury(self, shard: OpenShard, row: SourceRow, failure: RecordFailure, output: EngineOutput | None) -> None:
        """Make a record a dead letter of its shard."""
        log.warning(
            "record %r of shard %05d is a dead letter: %s: %s", row.record_id, shard.number, failure.name, failure
        )
        letter = self._answers.dead_letter(
            shard.lease, shard.shard, row, failure, shard.tries(row.row), output, self._clock.wall_s()
        )
        shard.dead.add(letter, self._clock.monotonic_s())
