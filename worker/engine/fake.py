"""An engine that answers at once, from the prompt's hash and the output schema: for tests and bookkeeping benchmarks.

It speaks the same port as the real one, and fails on demand: `FakeFaults` names markers in a record's text, and a
record that holds one gets that fault every time. With a real tokenizer the ids are decoded by `text_of`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batch_assets.domain.attempt import Refused
from batch_assets.domain.errors import EngineDead
from batch_assets.domain.ports import EngineOutput, EngineRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeFaults:
    """Markers in a record's text that trigger a fault; an empty marker never does.

    `crash` ends the engine, `kill_worker` kills this whole process, `hang` lets the engine stand still until it is
    killed, `refuse` is refused at submission, `invalid` answers no JSON, `truncate` cuts the answer, `abort` comes back
    unfinished. `latency_s` is how long each step takes. `journal` names a file to which each request is added when it
    is asked and when it is answered, so that a test can count what was done twice.
    """

    crash: str = ""
    kill_worker: str = ""
    hang: str = ""
    refuse: str = ""
    invalid: str = ""
    truncate: str = ""
    abort: str = ""
    latency_s: float = 0.0
    journal: str = ""

    @classmethod
    def from_json(cls, text: str) -> FakeFaults:
        """Read the setting `BATCH_ASSETS_FAKE_FAULTS`; empty text means no faults."""
        return cls(**json.loads(text)) if text else cls()

    @property
    def looks_at_text(self) -> bool:
        """Whether any marker is set, so that prompts must be decoded."""
        markers = (self.crash, self.kill_worker, self.hang, self.refuse, self.invalid, self.truncate, self.abort)
        return any(markers)


class FakeEngine:
    """See the module's docstring. `seqs_per_step` requests are answered by each step."""

    def __init__(
        self,
        schema: dict[str, Any],
        *,
        seqs_per_step: int,
        faults: FakeFaults,
        text_of: Callable[[list[int]], str],
    ) -> None:
        self._answers = _AnswerMaker(schema)
        self._seqs_per_step = seqs_per_step
        self._faults = faults
        self._text_of = text_of
        self._waiting: dict[str, EngineRequest] = {}
        self._killed = threading.Event()
        self._standing = threading.Event()
        self._why = "the fake engine is dead"
        self._tokens_moved = 0

    @property
    def tokens_moved(self) -> int:
        """Tokens given so far."""
        return self._tokens_moved

    def kill(self, reason: str) -> None:
        """Die, and wake a step that stands still."""
        self._why = reason
        self._killed.set()

    def submit(self, request: EngineRequest) -> None:
        """Add a request."""
        self._require_alive()
        if self._has(request, self._faults.refuse):
            raise Refused("the fake engine refuses this prompt")
        self._waiting[request.request_id] = request
        self._note("asked", [request])

    def step(self) -> list[EngineOutput]:
        """Answer the oldest requests."""
        self._require_alive()
        if self._faults.latency_s:
            time.sleep(self._faults.latency_s)
        batch = list(self._waiting.values())[: self._seqs_per_step]
        if self._faults.looks_at_text:
            batch = self._strike(batch)
        for request in batch:
            del self._waiting[request.request_id]
        answers = [self._answer(request) for request in batch]
        self._note("answered", batch)
        self._tokens_moved += sum(answer.output_tokens for answer in answers)
        return answers

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests."""
        for request_id in request_ids:
            self._waiting.pop(request_id, None)

    def close(self) -> None:
        """Nothing runs."""
        self._killed.set()

    def _note(self, what: str, requests: Iterable[EngineRequest]) -> None:
        if self._faults.journal:
            with Path(self._faults.journal).open("a", encoding="utf-8") as journal:
                journal.writelines(f"{what} {request.request_id}\n" for request in requests)

    def _require_alive(self) -> None:
        if self._killed.is_set():
            raise EngineDead(self._why)

    def _has(self, request: EngineRequest, marker: str) -> bool:
        return bool(marker) and marker in self._text_of(request.prompt_token_ids)

    def _strike(self, batch: list[EngineRequest]) -> list[EngineRequest]:
        if any(self._has(request, self._faults.kill_worker) for request in batch):
            os.kill(os.getpid(), signal.SIGKILL)
        if any(self._has(request, self._faults.crash) for request in batch):
            self.kill("the fake engine crashed on a marked record")
        elif any(self._has(request, self._faults.hang) for request in batch):
            self._standing.set()
            self._killed.wait()
        self._require_alive()
        return batch

    def _answer(self, request: EngineRequest) -> EngineOutput:
        text, reason = self._answers.make(request.prompt_token_ids), "stop"
        if self._faults.looks_at_text:
            if self._has(request, self._faults.invalid):
                text = "this is not the JSON you are looking for"
            elif self._has(request, self._faults.truncate):
                text, reason = text[: len(text) // 2], "length"
            elif self._has(request, self._faults.abort):
                text, reason = "", "abort"
        return EngineOutput(
            request_id=request.request_id,
            text=text,
            finish_reason=reason,
            prompt_tokens=len(request.prompt_token_ids),
            cached_tokens=0,
            output_tokens=len(text) // 4 + 1,
        )


class _AnswerMaker:
    """Makes answers that satisfy a flat output schema, chosen by the prompt's hash."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._properties: dict[str, dict[str, Any]] = schema.get("properties", {})

    def make(self, prompt_token_ids: list[int]) -> str:
        """Return the JSON text of one answer; the same prompt always gets the same."""
        digest = hashlib.blake2b(array("q", prompt_token_ids).tobytes(), digest_size=16).digest()
        answer = {name: _value(schema, digest, place) for place, (name, schema) in enumerate(self._properties.items())}
        return json.dumps(answer, separators=(",", ":"))


def _value(schema: dict[str, Any], digest: bytes, place: int) -> Any:
    pick = digest[place % len(digest)]
    if "enum" in schema:
        return schema["enum"][pick % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "boolean":
        return pick % 4 == 0
    if kind in {"integer", "number"}:
        low = schema.get("minimum", 0)
        return low + pick % max(1, int(schema.get("maximum", low + 100) - low))
    if kind == "array":
        few = range(max(schema.get("minItems", 0), min(pick % 3, schema.get("maxItems", 3))))
        return [_value(schema.get("items", {"type": "string"}), digest, place + 1 + number) for number in few]
    if kind == "object":
        return {name: _value(inner, digest, place + 1) for name, inner in schema.get("properties", {}).items()}
    word = f"answer {digest.hex()}"
    word = word.ljust(schema.get("minLength", 0), ".")
    return word[: schema.get("maxLength", len(word))]
