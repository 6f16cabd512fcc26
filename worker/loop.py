"""The worker's loop: claim, ask, validate, commit, finish, next.

One thread drives the engine and decides; commits and renewals run beside it. The engine is kept full across shards:
the next one is claimed while the last records of the current one are still in flight.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from batch_assets.domain.attempt import EngineCrash, Refused
from batch_assets.domain.errors import BatchError, LeaseLost
from batch_assets.domain.lease import Lease
from batch_assets.domain.ports import Beat, Clock, ShardTable
from batch_assets.domain.spec import JobSpec
from worker.answers import AnswerReader
from worker.commits import Committer
from worker.drain import StopSignal
from worker.judge import Judge
from worker.keeper import EngineKeeper
from worker.open_shard import OpenShard, Prepared
from worker.successor import Successor

log = logging.getLogger("worker")

OPEN_SHARDS_MAX = 3  # one being asked, one draining, one being finished
CLAIM_PAUSE_S = 1.0
DRAIN_RESERVE_S = 3.0  # of the drain budget, for the last commit and the release


class Exit(IntEnum):
    """A worker's exit codes: the contract with the fleet and with Kubernetes."""

    DONE = 0  # nothing left to claim
    PERMANENT = 42  # no retry can help: a digest that does not match, a bad spec, an engine that always dies
    INTERRUPTED = 75  # told to stop, or recycled; what was finished is committed and the leases are released


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a worker works on; `shards` are numbers, or None for all of the version's."""

    worker: str
    version: str
    spec: JobSpec
    shards: Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How a worker behaves; `resources/settings.py` says what each is. `window` is records in flight at most."""

    window: int
    part_records_max: int
    part_interval_s: float
    lease_ttl_s: float
    memory_mb_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a worker works with."""

    table: ShardTable
    open_shard: Callable[[Lease], OpenShard]
    answers: AnswerReader
    committer: Committer
    keeper: EngineKeeper
    successor: Successor
    clock: Clock
    stop: StopSignal
    memory_mb: Callable[[], float]


class Worker:
    """Works on one version until nothing is left to claim or it is told to stop."""

    def __init__(self, assignment: Assignment, tools: Tools, limits: Limits) -> None:
        self._assignment = assignment
        self._tools = tools
        self._limits = limits
        self._judge = Judge(assignment.spec, tools.table, tools.answers, tools.keeper, tools.successor, tools.clock)
        self._open: list[OpenShard] = []
        self._next_claim_s = 0.0
        self._step_s = 0.0
        self._recycle = False
        self._has_claimed = False
        self._records = 0
        self._tokens = 0
        self._started_s = tools.clock.monotonic_s()

    @property
    def open_shards(self) -> list[OpenShard]:
        """The shards that this worker holds now."""
        return list(self._open)

    def beat(self) -> Beat:
        """Say how it goes, since the start."""
        elapsed = max(1e-9, self._tools.clock.monotonic_s() - self._started_s)
        return Beat(
            worker=self._assignment.worker,
            version=self._assignment.version,
            state="draining" if self._tools.stop.requested else "working",
            records=self._records,
            records_per_s=self._records / elapsed,
            tokens_per_s=self._tokens / elapsed,
        )

    def run(self) -> Exit:
        """Work; returns why it ended.

        Raises:
            Permanent: no retry can help. BatchError: the store or the shard table is gone for good.
        """
        try:
            return self._work()
        except BaseException:
            self._give_up()
            raise

    def _work(self) -> Exit:
        tools = self._tools
        while not tools.stop.requested:
            tools.committer.look()
            self._sweep()
            self._fill()
            if tools.keeper.in_flight:
                self._step()
            elif self._wrap_up():
                return Exit.INTERRUPTED if self._recycle else Exit.DONE
        self._drain()
        return Exit.INTERRUPTED

    def _give_up(self) -> None:
        """Save what can be saved before an error ends the worker: no successor should wait for a lease to expire."""
        for shard in list(self._open):
            with contextlib.suppress(BatchError):
                self._tools.committer.flush(shard)
            self._tools.committer.settle()  # where the store takes nothing more, the lease is given back all the same
            with contextlib.suppress(BatchError):
                self._let_go(shard)

    def _fill(self) -> None:
        """Keep the engine full: suspects alone if there are any, else retries, then new records, then a new shard."""
        keeper = self._tools.keeper
        if keeper.suspecting:
            if not keeper.in_flight:
                self._ask_suspects()
            return
        suspected = next((shard for shard in self._open if shard.suspicion and not shard.lost), None)
        if suspected is not None:
            for prepared, refused in self._tools.successor.ask(suspected, self._open):
                self._judge.fail(suspected, prepared, refused, None)
            return
        while keeper.in_flight < self._limits.window:
            found = self._next()
            if found is None:
                return
            owner, record = found
            try:
                keeper.ask(owner, record)
            except Refused as error:
                self._judge.fail(owner, record, error, None)

    def _ask_suspects(self) -> None:
        keeper = self._tools.keeper
        if keeper.wants_witness:
            shards = [shard for shard in self._open if not shard.lost and not shard.cancelled]
            for shard in shards:
                witness = shard.witness(keeper.deaths)
                if witness is not None:
                    try:
                        keeper.ask_witness(shard, witness)
                    except Refused as error:
                        self._judge.fail(shard, witness, error, None)
                    return
        for shard, prepared, refused in keeper.ask_suspects():
            self._judge.fail(shard, prepared, refused, None)

    def _next(self) -> tuple[OpenShard, Prepared] | None:
        while True:
            for shard in self._open:
                prepared = None if shard.lost or shard.cancelled or shard.suspicion else shard.next()
                if prepared is not None:
                    return shard, prepared
            if not self._claim() or any(shard.suspicion for shard in self._open):
                return None

    def _claim(self) -> bool:
        """Claim a shard if there may be one; a worker whose memory has grown too much takes no more."""
        now_s = self._tools.clock.monotonic_s()
        bound = self._limits.memory_mb_max
        # Never before its first shard: a bound below what the model needs must not keep all work from being done.
        if bound and self._has_claimed and self._tools.memory_mb() > bound:
            self._recycle = True
        if self._recycle or len(self._open) >= OPEN_SHARDS_MAX or now_s < self._next_claim_s:
            return False
        lease = self._tools.table.claim(
            self._assignment.version,
            self._assignment.worker,
            ttl_s=self._limits.lease_ttl_s,
            shards=self._assignment.shards,
        )
        if lease is None:
            self._next_claim_s = now_s + CLAIM_PAUSE_S
            return False
        self._has_claimed = True
        try:
            shard = self._tools.open_shard(lease)
        except LeaseLost as error:
            log.warning("shard %05d was lost while it was opened: %s", lease.shard, error)
            return True
        except BatchError:
            # Nothing was written under this lease that an earlier one had not: counts and suspicion stay as they were.
            # A release that fails (its answer may be lost, and the retry finds no lease) must not hide the reason.
            with contextlib.suppress(BatchError):
                row = self._tools.table.shards(lease.version)[lease.shard]
                self._tools.table.release(
                    lease, results=row.results, dead_letters=row.dead_letters, suspicious=row.unclean_ends > 0
                )
            raise
        log.info("shard %05d open, epoch %d", lease.shard, lease.epoch)
        self._tools.successor.suspect(shard)
        for prepared in shard.take_condemned(self._assignment.spec.limits.attempts_max):
            self._judge.bury(shard, prepared, EngineCrash("each worker that asked it alone died"), None)
        self._open.append(shard)
        return True

    def _step(self) -> None:
        """Advance the engine once and take in what came back."""
        began_s = self._tools.clock.monotonic_s()
        stepped = self._tools.keeper.step()
        self._step_s = self._tools.clock.monotonic_s() - began_s
        for shard, prepared, output in stepped.answered:
            self._records += 1
            self._tokens += output.prompt_tokens + output.output_tokens
            self._judge.take(shard, prepared, output)
        self._judge.lost(stepped.lost)
        if stepped.killer is not None:
            crash = EngineCrash("the engine died, or stood still, with this record alone in flight")
            self._judge.fail(*stepped.killer, crash, None)
        self._commit_due()

    def _commit_due(self) -> None:
        """Commit parts that are due, and finish shards with nothing left to ask."""
        now_s = self._tools.clock.monotonic_s()
        limits = self._limits
        # A model loads for minutes: what is finished must stand before that, not wait until it is due.
        engine_gone = not self._tools.keeper.has_engine
        for shard in self._open:
            while shard.unrenderable:
                row, failure = shard.unrenderable.pop()
                self._judge.bury(shard, row, failure, None)
            if shard.finishing or shard.lost:
                continue
            if shard.settled and not self._tools.keeper.suspects_of(shard):
                self._tools.committer.finish(shard)
            elif engine_gone or any(
                buffer.due(records_max=limits.part_records_max, interval_s=limits.part_interval_s, now_s=now_s)
                for buffer in (shard.results, shard.dead)
            ):
                self._tools.committer.flush(shard)

    def _sweep(self) -> None:
        """Let go of shards that are finished, lost or cancelled."""
        finished = self._tools.committer.finished
        while finished:
            shard = finished.popleft()
            if shard in self._open:  # else a renewal found it done before the completion's answer came: let go as lost
                self._open.remove(shard)
            log.info("shard %05d done", shard.number)
        for shard in list(self._open):
            if shard.cancelled and not shard.lost:
                self._let_go(shard)
            elif shard.lost:
                log.warning("shard %05d lost, its unfinished work is thrown away: %s", shard.number, shard.lost)
                self._tools.keeper.drop(shard)
                self._open.remove(shard)

    def _wrap_up(self) -> bool:
        """With nothing in flight: finish what is open; True if nothing is left to claim either."""
        self._commit_due()
        self._tools.committer.wait()
        self._sweep()
        if self._open or self._tools.keeper.suspecting:
            return False
        self._next_claim_s = 0.0
        return not self._claim()

    def _let_go(self, shard: OpenShard) -> None:
        """Commit what a shard has and give its lease back."""
        dropped = self._tools.keeper.drop(shard)
        self._tools.committer.flush(shard)
        self._tools.committer.wait()
        if shard in self._tools.committer.finished:
            return
        self._judge.lost([(shard, prepared) for prepared in dropped])
        self._open.remove(shard)
        try:
            self._tools.table.release(
                shard.lease,
                results=shard.committed_results,
                dead_letters=shard.committed_dead,
                suspicious=shard.suspicion is not None,
            )
        except LeaseLost as error:
            log.warning("shard %05d was lost before its release: %s", shard.number, error)
        else:
            log.info("shard %05d released", shard.number)

    def _drain(self) -> None:
        """Take no more, let what is in flight finish within the budget, commit, release."""
        tools = self._tools
        log.info("draining (%s): %d records in flight", tools.stop.reason, tools.keeper.in_flight)
        tools.keeper.draining = True
        # A step cannot be broken off: none is begun that would end within the reserve, if it takes as long as the last.
        while tools.keeper.in_flight and tools.stop.left_s - self._step_s > DRAIN_RESERVE_S:
            self._step()
            self._sweep()
        for shard in self._open:
            if not shard.finishing:
                tools.committer.flush(shard)
        tools.committer.wait()
        self._sweep()
        for shard in list(self._open):
            self._let_go(shard)
