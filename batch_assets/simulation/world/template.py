"""A registered version that worlds start from: snapshot, plan and registry are made once, by production code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.plan import Plan
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.spec import DecodingSpec, InputSpec, JobSpec, LimitsSpec, ModelSpec, PromptSpec
from batch_assets.simulation.world.weather import SHAPES, Shape
from resources.flow.register import take_and_register
from resources.platform import Platform
from resources.result_store.store import open_result_store
from resources.settings import Settings
from resources.shard_table.memory import MemoryShardTable

JOB = "tickets"
_SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"type": "string", "enum": ["card", "fraud", "other"]},
        "urgent": {"type": "boolean"},
    },
    "required": ["category", "urgent"],
    "additionalProperties": False,
}


class ZeroClock:
    """The clock at which templates are made: it does not move."""

    def monotonic_s(self) -> float:
        """Zero."""
        return 0.0

    def wall_s(self) -> float:
        """The beginning of 2026."""
        return 1_767_225_600.0

    def sleep(self, seconds: float) -> None:
        """Return at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A version, its plan, and the objects of its registry."""

    shape: Shape
    spec: JobSpec
    version: str
    plan: Plan
    settings: Settings
    objects: tuple[tuple[str, bytes], ...]

    def place(self, shard: int, row: int) -> int:
        """Return a record's place in the snapshot."""
        return shard * self.shape.shard_size + row

    @property
    def window(self) -> int:
        """Records that a worker has in flight at most."""
        return int(self.shape.max_num_seqs * 1.25)

    def fill(self, store: ObjectStore) -> None:
        """Put the registry's objects into a world's store."""
        for key, data in self.objects:
            store.put_if_absent(key, data)


@contextmanager
def templates() -> Iterator[list[Template]]:
    """Make one template of each shape; their sources are in a folder that is removed at the end."""
    with TemporaryDirectory(prefix="worlds-") as folder:
        yield [_make(Path(folder), shape) for shape in SHAPES]


def _make(folder: Path, shape: Shape) -> Template:
    source = folder / f"{shape.records}-{shape.shard_size}.parquet"
    places = range(shape.records)
    # Several length classes, so that the order of asking is not the order of rows.
    texts = ["" if place in shape.refused else f"record {place:04d} " + "x" * (place * 7 % 40) for place in places]
    pq.write_table(pa.table({"record_id": [f"r{place:04d}" for place in places], "text": texts}), source)
    spec = JobSpec(
        name=JOB,
        input=InputSpec(uri=str(source)),
        model=ModelSpec(
            name="fake",
            path=str(folder / "no-model"),
            digest="sha256:" + "0" * 64,
            engine="fake",
            max_num_seqs=shape.max_num_seqs,
        ),
        prompt=PromptSpec(system="Sort the message."),
        decoding=DecodingSpec(max_tokens=40),
        output_schema=json.dumps(_SCHEMA, sort_keys=True),
        limits=LimitsSpec(input_tokens_max=500),
        shard_size=shape.shard_size,
    )
    store = open_result_store("memory://")
    settings = Settings(data_dir=folder)
    made = take_and_register(Platform(settings, store, MemoryShardTable(), ZeroClock()), spec)
    objects = tuple((item.key, store.get(item.key)) for item in store.list(""))
    return Template(shape=shape, spec=spec, version=made.version, plan=made.plan, settings=settings, objects=objects)
