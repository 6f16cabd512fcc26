"""The engine and what is in flight in it: restarted when it dies, with its suspects rerun in halves (I4)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from batch_assets.domain.attempt import Refused
from batch_assets.domain.errors import EngineDead, EngineUnusable
from batch_assets.domain.ports import Engine, EngineOutput, EngineRequest
from batch_assets.domain.suspects import Suspects
from worker.open_shard import OpenShard, Prepared

log = logging.getLogger("worker")

Asked = tuple[OpenShard, Prepared]


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
        self.draining = False

    @property
    def in_flight(self) -> int:
        """Requests in the engine."""
        return len(self._in_flight)

    @property
    def has_engine(self) -> bool:
        """Whether an engine stands: the next request builds one otherwise, which takes minutes for a real model."""
        return self._engine is not None

    @property
    def suspecting(self) -> bool:
        """Whether suspects are being rerun: nothing else is asked meanwhile."""
        return len(self._suspects) > 0

    def ask(self, shard: OpenShard, prepared: Prepared) -> None:
        """Put a record in flight; if the engine dies of it, `step` says so.

        Raises:
            Refused: the engine does not take the record.
            EngineUnusable: the engine cannot be built.
        """
        if self._engine is None:
            log.info("engine starting")
            self._engine = self._build()
            log.info("engine ready")
        request_id = shard.request_id(prepared.row.row)
        request = EngineRequest(
            request_id=request_id,
            prompt_token_ids=prepared.prompt_token_ids,
            max_tokens=self._token_limit(prepared),
        )
        self._in_flight[request_id] = (shard, prepared)
        shard.in_flight[request_id] = prepared
        try:
            self._engine.submit(request)
        except Refused:
            self._back(request_id)
            raise
        except EngineDead:
            return  # it is in flight in a dead engine: the next step finds out, and all of them are suspects

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

    def step(self) -> tuple[list[tuple[OpenShard, Prepared, EngineOutput]], list[Asked]]:
        """Advance the engine; return what came back, and records that killed it while alone.

        Raises:
            EngineUnusable: it died too often in a row.
        """
        if self._engine is None:
            return [], []
        try:
            outputs = self._engine.step()
        except EngineDead as error:
            return [], self._died(error)
        done = []
        for output in outputs:
            asked = self._back(output.request_id)
            if asked is not None:
                self._deaths = 0
                done.append((*asked, output))
        return done, []

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

    def _died(self, error: EngineDead) -> list[Asked]:
        asked = dict(self._in_flight)
        log.warning("engine died with %d records in flight: %s", len(asked), error)
        for shard, _ in asked.values():
            shard.in_flight.clear()
        self._in_flight.clear()
        self.close()
        if self.draining:
            return []
        self._deaths += 1
        if self._deaths > self._restarts_max:
            raise EngineUnusable(f"the engine died {self._deaths} times without one answer in between: {error}")
        killer = self._suspects.accuse(list(asked))
        self._accused |= {request_id: item for request_id, item in asked.items() if request_id != killer}
        return [asked[killer]] if killer is not None else []
