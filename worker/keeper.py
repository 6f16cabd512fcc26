"""The engine and what is in flight in it: restarted when it dies, with its suspects rerun in halves (I4)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from batch_assets.domain.attempt import Refused
from batch_assets.domain.errors import EngineDead, EngineUnusable
from batch_assets.domain.ports import Engine, EngineOutput, EngineRequest
from batch_assets.domain.suspects import Suspects
from worker.open_shard import OpenShard, Prepared

log = logging.getLogger("worker")

Asked = tuple[OpenShard, Prepared]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """What one step brought: answers; or an engine's death with its killer, if one stood alone, and who was lost."""

    answered: list[tuple[OpenShard, Prepared, EngineOutput]] = field(default_factory=list)
    killer: Asked | None = None
    lost: list[Asked] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """A look at the engine from outside: `steps` were finished, `in_step` says whether one is under way."""

    engine: Engine | None
    in_flight: int
    steps: int
    in_step: bool


class EngineKeeper:
    """Owns the engine. Built on first use, so that a worker with nothing to do loads no model.

    Args:
        build: verifies the weights and starts an engine.
        restarts_max: engine deaths in a row, without one answer in between, that are borne.
        token_limit: the answer's token limit of a prepared record.
    """

    def __init__(
        self, build: Callable[[], Engine], *, restarts_max: int, token_limit: Callable[[Prepared], int]
    ) -> None:
        self._build = build
        self._restarts_max = restarts_max
        self._token_limit = token_limit
        self._engine: Engine | None = None
        self._deaths = 0
        self._in_flight: dict[str, Asked] = {}
        self._suspects: Suspects[str] = Suspects()
        self._accused: dict[str, Asked] = {}
        self._proven = False
        self._witness = ""
        self._steps = 0
        self._in_step = False
        self.draining = False

    @property
    def in_flight(self) -> int:
        """Requests in the engine."""
        return len(self._in_flight)

    @property
    def pulse(self) -> Pulse:
        """How the engine does, for a watchdog's thread."""
        return Pulse(engine=self._engine, in_flight=len(self._in_flight), steps=self._steps, in_step=self._in_step)

    @property
    def has_engine(self) -> bool:
        """Whether an engine stands: the next request builds one otherwise, which takes minutes for a real model."""
        return self._engine is not None

    @property
    def deaths(self) -> int:
        """Engine deaths in a row, without an answer in between."""
        return self._deaths

    @property
    def proven(self) -> bool:
        """Whether this engine has answered anything: if it has, a death of it says something about a record."""
        return self._proven

    @property
    def wants_witness(self) -> bool:
        """Whether a suspect's turn has come to be asked alone, by an engine that has proven nothing."""
        return not self._in_flight and not self._proven and self._suspects.next_is_alone

    @property
    def suspecting(self) -> bool:
        """Whether suspects are being rerun: nothing else is asked meanwhile."""
        return len(self._suspects) > 0

    def start(self) -> Engine:
        """Build the engine unless one stands.

        Raises:
            EngineUnusable: it cannot be built. ModelDigestMismatch: the weights are not the pinned ones.
        """
        if self._engine is None:
            log.info("engine starting")
            self._engine = self._build()
            self._proven = False
            log.info("engine ready")
        return self._engine

    def ask(self, shard: OpenShard, prepared: Prepared) -> None:
        """Put a record in flight; if the engine dies of it, `step` says so.

        Raises:
            Refused: the engine does not take the record.
            EngineUnusable: the engine cannot be built.
        """
        engine = self.start()
        request_id = shard.request_id(prepared.row.row)
        request = EngineRequest(
            request_id=request_id,
            prompt_token_ids=prepared.prompt_token_ids,
            max_tokens=self._token_limit(prepared),
        )
        self._in_flight[request_id] = (shard, prepared)
        shard.in_flight[request_id] = prepared
        try:
            engine.submit(request)
        except Refused:
            self._back(request_id)
            raise
        except EngineDead:
            return  # it is in flight in a dead engine: the next step finds out, and all of them are suspects

    def ask_witness(self, shard: OpenShard, prepared: Prepared) -> None:
        """Put a record in flight, alone, that nobody suspects; raises as `ask`."""
        self._witness = shard.request_id(prepared.row.row)
        self.ask(shard, prepared)

    def ask_suspects(self) -> list[tuple[OpenShard, Prepared, Refused]]:
        """Put the next group of suspects in flight, if the one before has come back; return those refused."""
        refused = []
        for request_id in self._suspects.next_group():
            shard, prepared = self._accused.pop(request_id)
            try:
                self.ask(shard, prepared)
            except Refused as error:
                refused.append((shard, prepared, error))
        return refused

    def step(self) -> Stepped:
        """Advance the engine; return what came back, or whom its death has taken.

        Raises:
            EngineUnusable: it died too often in a row.
        """
        if self._engine is None:
            return Stepped()
        self._in_step = True
        try:
            outputs = self._engine.step()
        except EngineDead as error:
            return self._died(error)
        finally:
            self._in_step = False
            self._steps += 1
        answered = []
        for output in outputs:
            asked = self._back(output.request_id)
            if asked is not None:
                self._deaths = 0
                self._proven = True
                answered.append((*asked, output))
        return Stepped(answered=answered)

    def again(self, shard: OpenShard, prepared: Prepared) -> None:
        """Rerun a killer, alone, before anything else."""
        request_id = shard.request_id(prepared.row.row)
        self._accused[request_id] = (shard, prepared)
        self._suspects.add([request_id])

    def suspects_of(self, shard: OpenShard) -> bool:
        """Whether suspects of a shard wait to be rerun."""
        return any(owner is shard for owner, _ in self._accused.values())

    def drop(self, shard: OpenShard) -> list[Prepared]:
        """Abort everything of a shard; return what was in flight."""
        gone = list(shard.in_flight)
        dropped = [shard.in_flight[request_id] for request_id in gone]
        if self._engine is not None and gone:
            self._engine.abort(gone)
        for request_id in gone:
            self._back(request_id)
        waiting = [request_id for request_id, (owner, _) in self._accused.items() if owner is shard]
        self._suspects.forget(waiting)
        for request_id in waiting:
            del self._accused[request_id]
        return dropped

    def close(self) -> None:
        """Stop the engine."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _back(self, request_id: str) -> Asked | None:
        asked = self._in_flight.pop(request_id, None)
        if asked is not None:
            asked[0].in_flight.pop(request_id, None)
            self._suspects.cleared(request_id)
        return asked

    def _died(self, error: EngineDead) -> Stepped:
        asked = dict(self._in_flight)
        log.warning("engine died with %d records in flight: %s", len(asked), error)
        for shard, _ in asked.values():
            shard.in_flight.clear()
        self._in_flight.clear()
        self.close()
        if self.draining:
            return Stepped(lost=list(asked.values()))
        self._deaths += 1
        if self._deaths > self._restarts_max:
            raise EngineUnusable(f"the engine died {self._deaths} times without one answer in between: {error}")
        if list(asked) == [self._witness]:  # it died as first of its engine: the engine may be at fault
            self._accused |= asked
            self._suspects.add_last(list(asked))
            return Stepped(lost=list(asked.values()))
        killer = self._suspects.accuse(list(asked))
        company = {request_id: item for request_id, item in asked.items() if request_id != killer}
        self._accused |= company
        return Stepped(killer=asked[killer] if killer is not None else None, lost=list(company.values()))
