"""A worker in this process: real loop, planner, staging and merge; the fake engine; a clock that only tests move."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.ports import Engine
from batch_assets.domain.spec import (
    DecodingSpec,
    InputColumns,
    InputSpec,
    JobSpec,
    LimitsSpec,
    ModelSpec,
    PromptSpec,
)
from resources.flow import Registration, take_and_register
from resources.platform import Platform
from resources.prompting.renderer import open_renderer
from resources.result_store.store import open_result_store
from resources.settings import Settings
from resources.shard_table.memory import MemoryShardTable
from worker.answers import AnswerReader
from worker.commits import Committer
from worker.drain import StopSignal
from worker.engine.fake import FakeEngine, FakeFaults
from worker.keeper import EngineKeeper
from worker.loop import Assignment, Limits, Tools, Worker
from worker.opening import ShardOpener
from worker.successor import Successor

SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"type": "string", "enum": ["card", "fraud", "other"]},
        "summary": {"type": "string", "minLength": 1, "maxLength": 80},
        "entities": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 3},
        "urgent": {"type": "boolean"},
    },
    "required": ["category", "summary", "entities", "urgent"],
    "additionalProperties": False,
}


class HandClock:
    """A clock that moves when it is told to, or by `tick_s` at each look."""

    def __init__(self, tick_s: float = 0.0) -> None:
        self.now_s = 1_000.0
        self.tick_s = tick_s

    def monotonic_s(self) -> float:
        """Seconds that only grow."""
        self.now_s += self.tick_s
        return self.now_s

    def wall_s(self) -> float:
        """Seconds since 1970."""
        return 1_700_000_000.0 + self.now_s

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.now_s += seconds


class InlineExecutor(Executor):
    """Runs everything at once, so that a test knows what has happened."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` now."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - a future carries whatever was raised
            future.set_exception(error)
        return future


def make_spec(
    folder: Path, texts: Sequence[str], *, shard_size: int = 50, max_num_seqs: int = 8, **changes: Any
) -> JobSpec:
    """Write `texts` as a Parquet source and return a job over it with the fake engine."""
    source = folder / "source.parquet"
    ids = [f"r{number:05d}" for number in range(len(texts))]
    pq.write_table(pa.table({"record_id": ids, "text": list(texts)}), source)
    values: dict[str, Any] = {
        "name": "tickets",
        "input": InputSpec(uri=str(source), columns=InputColumns()),
        "model": ModelSpec(
            name="fake",
            path=str(folder / "no-model"),
            digest="sha256:" + "0" * 64,
            engine="fake",
            max_num_seqs=max_num_seqs,
            max_model_len=100_000,
        ),
        "prompt": PromptSpec(system="Sort the message."),
        "decoding": DecodingSpec(max_tokens=100),
        "output_schema": json.dumps(SCHEMA, sort_keys=True),
        "limits": LimitsSpec(input_tokens_max=5_000),
        "shard_size": shard_size,
    }
    return JobSpec(**{**values, **changes})


class Bench:
    """A platform in memory, a registered version, and workers on demand."""

    def __init__(self, folder: Path, spec: JobSpec, clock: HandClock | None = None) -> None:
        self.clock = clock or HandClock()
        settings = Settings(data_dir=folder / "data")
        self.table = MemoryShardTable(lambda: self.clock.now_s)
        self.store = open_result_store("memory://")
        self.platform = Platform(settings, self.store, self.table, self.clock)
        self.spec = spec
        self.registration: Registration = take_and_register(self.platform, spec)
        self.version = self.registration.version
        self.engines: list[FakeEngine] = []

    def engine_factory(self, faults: FakeFaults) -> Callable[[], Engine]:
        """Return what builds engines; each is kept in `engines`."""

        def build() -> Engine:
            engine = FakeEngine(
                self.spec.schema,
                seqs_per_step=self.spec.model.max_num_seqs,
                faults=faults,
                text_of=lambda ids: bytes(ids).decode(),
            )
            self.engines.append(engine)
            return engine

        return build

    def worker(
        self,
        name: str = "w1",
        *,
        faults: FakeFaults | None = None,
        part_records_max: int = 10,
        restarts_max: int = 16,
        memory_mb: Callable[[], float] = lambda: 0.0,
        memory_mb_max: int = 0,
    ) -> tuple[Worker, StopSignal]:
        """Return a worker and its stop signal."""
        entry = self.platform.registry.read(self.spec.name, self.version)
        stop = StopSignal(self.clock, 10.0)
        keeper = EngineKeeper(
            self.engine_factory(faults or FakeFaults()),
            restarts_max=restarts_max,
            token_limit=lambda prepared: (
                (self.spec.decoding.max_tokens_retry if prepared.larger else None) or self.spec.decoding.max_tokens
            ),
        )
        window = int(self.spec.model.max_num_seqs * 1.25)
        committer = Committer(self.store, self.table, self.spec, InlineExecutor(), lease_ttl_s=600)
        opener = ShardOpener(self.platform, entry, open_renderer(self.spec, Path(self.spec.model.path)))
        tools = Tools(
            table=self.table,
            open_shard=opener.open,
            answers=AnswerReader(self.spec, self.version, entry.snapshot),
            committer=committer,
            keeper=keeper,
            successor=Successor(self.table, committer, keeper, window=window, part_records_max=part_records_max),
            clock=self.clock,
            stop=stop,
            memory_mb=memory_mb,
        )
        limits = Limits(
            window=window,
            part_records_max=part_records_max,
            part_interval_s=5.0,
            lease_ttl_s=600.0,
            memory_mb_max=memory_mb_max,
        )
        assignment = Assignment(worker=name, version=self.version, spec=self.spec, shards=None)
        return Worker(assignment, tools, limits), stop

    def rows(self) -> list[dict[str, Any]]:
        """Return the results of the finished shards."""
        outcomes = [row.outcome for row in self.table.shards(self.version) if row.outcome]
        tables = [pq.read_table(pa.BufferReader(self.store.get(item.result_key))) for item in outcomes]
        return [row for table in tables for row in table.to_pylist()]

    def letters(self) -> list[dict[str, Any]]:
        """Return the dead letters of the finished shards."""
        outcomes = [row.outcome for row in self.table.shards(self.version) if row.outcome and row.outcome.dead_key]
        tables = [pq.read_table(pa.BufferReader(self.store.get(item.dead_key or ""))) for item in outcomes]
        return [row for table in tables for row in table.to_pylist()]
