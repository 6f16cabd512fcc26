"""The fake engine in a world: it takes time, dies now and then, and meets the world's poison records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from batch_assets.domain.errors import EngineDead
from batch_assets.domain.ports import EngineOutput, EngineRequest
from batch_assets.simulation.world.events import Answered, EngineDied, EngineStarted, Event
from batch_assets.simulation.world.hub import Hub
from batch_assets.simulation.world.seams import Seams
from batch_assets.simulation.world.template import Template
from batch_assets.simulation.world.weather import Poison, Weather
from worker.engine.fake import FakeEngine, FakeFaults

_RECORD = re.compile(rb"record (\d{4})")
_MARKS = FakeFaults(crash="<crash>", refuse="<refuse>", invalid="<invalid>", truncate="<truncate>", abort="<abort>")
_STANDING_S = 1.0
Tell = Callable[[type[Event], dict[str, object]], None]


class Poisoned:
    """What each record does, and how often it was asked in the whole world."""

    def __init__(self, poison: Mapping[int, Poison]) -> None:
        self._poison = poison
        self.asked: Counter[int] = Counter()

    def does(self, kind: Poison, places: Iterable[int]) -> bool:
        """Say whether one of these records does that."""
        return any(self._poison.get(place) is kind for place in places)

    def marked(self, prompt_token_ids: list[int]) -> str:
        """Return the prompt's text with the mark of what the fake engine does to it."""
        place = place_of(prompt_token_ids)
        kind = self._poison.get(place)
        if kind is Poison.FLAKY:
            return "<invalid>" if self.asked[place] <= 1 else ""
        return f"<{kind.value}>" if kind else ""


def place_of(prompt_token_ids: list[int]) -> int:
    """Return the place in the snapshot of the record in a prompt."""
    found = _RECORD.search(bytes(prompt_token_ids))
    if found is None:
        raise ValueError("a prompt without a record")
    return int(found[1])


class WorldEngine:
    """The `Engine` port."""

    def __init__(
        self, template: Template, weather: Weather, hub: Hub, seams: Seams, poisoned: Poisoned, tell: Tell
    ) -> None:
        hub.sleep(seams.spread(weather.load_s))
        self._engine = FakeEngine(
            template.spec.schema,
            seqs_per_step=template.shape.max_num_seqs,
            faults=_MARKS,
            text_of=poisoned.marked,
        )
        self._shard_size = template.shape.shard_size
        self._weather = weather
        self._hub = hub
        self._seams = seams
        self._poisoned = poisoned
        self._tell = tell
        self._places: dict[str, int] = {}
        self._killed = ""
        tell(EngineStarted, {})

    @property
    def tokens_moved(self) -> int:
        """Tokens given so far."""
        return self._engine.tokens_moved

    def kill(self, reason: str) -> None:
        """Die."""
        self._killed = reason
        self._engine.kill(reason)

    def submit(self, request: EngineRequest) -> None:
        """Add a request."""
        place = place_of(request.prompt_token_ids)
        self._poisoned.asked[place] += 1
        self._engine.submit(request)
        self._places[request.request_id] = place

    def step(self) -> list[EngineOutput]:
        """Advance, in some seconds. An engine never dies by chance with one record in flight: it would be blamed."""
        self._hub.sleep(self._seams.spread(self._weather.step_s))
        if len(self._places) > 1 and self._seams.sometimes(self._weather.engine_dies):
            self._engine.close()
            self._tell(EngineDied, {"marked": False})
            raise EngineDead("the simulated engine died by chance")
        if self._poisoned.does(Poison.KILL_WORKER, self._places.values()):
            self._seams.die()
        while self._poisoned.does(Poison.HANG, self._places.values()) and not self._killed:
            self._hub.sleep(_STANDING_S)
        try:
            outputs = self._engine.step()
        except EngineDead:
            self._tell(EngineDied, {"marked": True})
            raise
        for output in outputs:
            shard, row = divmod(self._places.pop(output.request_id), self._shard_size)
            self._tell(Answered, {"shard": shard, "row": row, "text": output.text})
        return outputs

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests."""
        for request_id in request_ids:
            self._places.pop(request_id, None)
            self._engine.abort([request_id])

    def close(self) -> None:
        """Stop."""
        self._engine.close()
