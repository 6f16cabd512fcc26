"""A small version that tests build without a worker: source, plan, spec, registry, and rows as a worker makes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from batch_assets.domain.canonical import canonical_json, digest_of_bytes
from batch_assets.domain.lease import Lease, Outcome, ShardRow, ShardState
from batch_assets.domain.plan import Plan, Shard, cut_shards
from batch_assets.domain.ports import ObjectStore
from batch_assets.domain.snapshot import Snapshot, SnapshotObject
from batch_assets.domain.spec import DecodingSpec, InputColumns, InputSpec, JobSpec, ModelSpec, PromptSpec, version_name
from resources.registry import RegisteredVersion, Registry
from resources.results.merge import finish_shard
from resources.results.parquet import write_parquet
from resources.results.staging import PartWriter, take_over
from resources.results.table_schema import DEAD_LETTER_SCHEMA, result_schema

JOB = "tickets"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"type": "string", "enum": ["card", "fraud", "other"]},
        "tags": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 8}},
        "summary": {"type": "string", "minLength": 1, "maxLength": 40},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "urgent": {"type": "boolean"},
    },
    "required": ["category", "tags", "summary", "score", "urgent"],
    "additionalProperties": False,
}


def make_spec(schema: Mapping[str, Any] = SCHEMA, *, system: str = "Sort the ticket.", shard_size: int = 10) -> JobSpec:
    """A spec of the fake engine; another `system` prompt is another recipe."""
    return JobSpec(
        name=JOB,
        input=InputSpec(uri="tickets", columns=InputColumns(carry=("lang",))),
        model=ModelSpec(name="fake", path="none", digest="sha256:" + "0" * 64, engine="fake"),
        prompt=PromptSpec(system=system),
        decoding=DecodingSpec(max_tokens=64),
        output_schema=canonical_json(dict(schema)),
        shard_size=shard_size,
    )


def write_source(folder: Path, object_rows: Sequence[int], *, ids: Sequence[str] | None = None) -> Snapshot:
    """Write source objects of these row counts under `folder`; ids are `r000000`, `r000001`, ... unless given."""
    names = list(ids or [f"r{number:06d}" for number in range(sum(object_rows))])
    objects, start = [], 0
    for number, rows in enumerate(object_rows):
        mine = names[start : start + rows]
        path = folder / f"source-{number}.parquet"
        pq.write_table(pa.table({"record_id": mine, "text": mine, "lang": ["en"] * rows}), path)
        data = path.read_bytes()
        objects.append(
            SnapshotObject(
                key=path.name,
                size_bytes=len(data),
                checksum=digest_of_bytes(data),
                rows=rows,
                data_uri=str(path),
                converted=False,
            )
        )
        start += rows
    return Snapshot(uri=str(folder), objects=tuple(objects))


@dataclass(frozen=True, slots=True)
class World:
    """A registered version and what a worker would do with it. `refused` are positions that planning refused."""

    store: ObjectStore
    entry: RegisteredVersion
    plan: Plan
    ids: tuple[str, ...]
    refused: frozenset[int]

    @classmethod
    def build(
        cls,
        store: ObjectStore,
        folder: Path,
        *,
        object_rows: Sequence[int] = (13, 12),
        refused: Iterable[int] = (),
        spec: JobSpec | None = None,
    ) -> World:
        """Write a source, plan it and register the version."""
        spec = spec or make_spec()
        snapshot = write_source(folder, object_rows)
        ids = tuple(f"r{number:06d}" for number in range(snapshot.rows))
        version = version_name(spec, snapshot.digest)
        out = frozenset(refused)
        shards, start = [], 0
        for index, slices in enumerate(cut_shards(list(object_rows), spec.shard_size)):
            records = sum(piece.rows for piece in slices)
            shards.append(
                Shard(
                    index=index,
                    slices=slices,
                    records=records,
                    refused=sum(start <= position < start + records for position in out),
                    estimated_tokens=records * 100,
                )
            )
            start += records
        entry = RegisteredVersion(version=version, spec=spec, snapshot=snapshot, registered_at="2026-03-01T12:00:00Z")
        world = cls(store, entry, Plan(version=version, shards=tuple(shards)), ids, out)
        refused_table = pa.concat_tables(
            [DEAD_LETTER_SCHEMA.empty_table()]
            + [
                world.dead(shard.index, rows, 0, "empty_text")
                for shard in shards
                if (rows := world.refused_rows(shard))
            ]
        )
        Registry(store).add(entry, world.plan, write_parquet(refused_table, footer={}, level=1))
        return world

    def of(self, spec: JobSpec) -> World:
        """The same version as a worker with another spec would see it."""
        return replace(self, entry=replace(self.entry, spec=spec))

    @property
    def version(self) -> str:
        """The version's name."""
        return self.entry.version

    @property
    def refused_key(self) -> str:
        """Where the refused records are."""
        return Registry(self.store).refused_key(JOB, self.version)

    def refused_rows(self, shard: Shard) -> list[int]:
        """Rows of a shard that planning refused."""
        return [row for row in range(shard.records) if self.start(shard.index) + row in self.refused]

    def open_rows(self, shard: Shard) -> list[int]:
        """Rows of a shard that a worker must answer."""
        return [row for row in range(shard.records) if self.start(shard.index) + row not in self.refused]

    def start(self, shard: int) -> int:
        """Position of a shard's first row."""
        return sum(item.records for item in self.plan.shards[:shard])

    def lease(self, shard: int, epoch: int = 1) -> Lease:
        """A lease of a shard under an epoch."""
        return Lease(version=self.version, shard=shard, worker=f"w{epoch}", epoch=epoch, expires_at_s=1e12)

    def _provenance(self, shard: int, row: int, epoch: int) -> dict[str, Any]:
        return {
            "job_version": self.version,
            "recipe_digest": self.entry.spec.recipe_digest,
            "model_digest": self.entry.spec.model.digest,
            "shard": shard,
            "row": row,
            "epoch": epoch,
            "worker": f"w{epoch}",
            "attempts": 1,
            "infrastructure_losses": 0,
            "finish_reason": "stop",
            "prompt_tokens": 100,
            "output_tokens": 10,
        }

    def _id(self, shard: int, row: int) -> str:
        return self.ids[self.start(shard) + row]

    def results(self, shard: int, rows: Iterable[int], epoch: int = 1, /, **answer: Any) -> pa.Table:
        """Result rows as a worker commits them; `answer` overrides columns."""
        made = []
        for row in rows:
            value = {
                "record_id": self._id(shard, row),
                "category": "card",
                "tags": ["pin"],
                "summary": f"epoch {epoch}",
                "score": 0.5,
                "urgent": False,
                "lang": "en",
                **self._provenance(shard, row, epoch),
                "cached_tokens": 60,
                "output_sha256": "sha256:" + "a" * 64,
                "answered_at": NOON,
            }
            made.append({**value, **answer})
        schema = result_schema(self.entry.spec)
        return pa.Table.from_pylist([{name: item.get(name) for name in schema.names} for item in made], schema=schema)

    def dead(self, shard: int, rows: Iterable[int], epoch: int = 1, failure: str = "invalid_output") -> pa.Table:
        """Dead letters as a worker commits them."""
        made = [
            {
                "record_id": self._id(shard, row),
                "object_key": "source-0.parquet",
                "object_row": row,
                "failure": failure,
                "reason": "because",
                "output": b"\xff{",
                **self._provenance(shard, row, epoch),
                "failed_at": NOON,
            }
            for row in rows
        ]
        return pa.Table.from_pylist(made, schema=DEAD_LETTER_SCHEMA)

    def run_shard(
        self,
        duck: duckdb.DuckDBPyConnection,
        shard: Shard,
        *,
        epoch: int = 1,
        dead_rows: Sequence[int] = (),
        **answer: Any,
    ) -> Outcome:
        """Answer a whole shard under one lease and finish it."""
        lease = self.lease(shard.index, epoch)
        taken = take_over(self.store, JOB, lease)
        writer = PartWriter(self.store, self.entry.spec, lease)
        live = [row for row in self.open_rows(shard) if row not in dead_rows]
        if live:
            writer.commit(self.results(shard.index, live, epoch, **answer))
        if dead_rows:
            writer.bury(self.dead(shard.index, dead_rows, epoch))
        keys = [*taken.parts, *writer.keys]
        return finish_shard(self.store, duck, self.entry.spec, lease, shard, keys)

    def row(self, shard: Shard, outcome: Outcome | None, *, epoch: int = 1) -> ShardRow:
        """The shard table's row of a shard, done if it has an outcome."""
        row = ShardRow(
            version=self.version,
            shard=shard.index,
            records=shard.records,
            refused=shard.refused,
            estimated_tokens=shard.estimated_tokens,
            epoch=epoch,
        )
        if outcome is None:
            return replace(row, state=ShardState.LEASED, worker=f"w{epoch}", expires_at_s=1e12)
        return replace(
            row,
            state=ShardState.DONE,
            results=outcome.results,
            dead_letters=outcome.dead_letters,
            outcome=outcome,
            finished_at_s=1.0,
        )

    def run(
        self, duck: duckdb.DuckDBPyConnection, *, dead: Mapping[int, Sequence[int]] | None = None, **answer: Any
    ) -> list[ShardRow]:
        """Answer every shard; `dead` maps a shard to rows that become dead letters."""
        return [
            self.row(shard, self.run_shard(duck, shard, dead_rows=(dead or {}).get(shard.index, ()), **answer))
            for shard in self.plan.shards
        ]


def read_json(store: ObjectStore, key: str) -> Any:
    """An object's JSON."""
    return json.loads(store.get(key))


def with_object(world: World, row: ShardRow, table: pa.Table) -> ShardRow:
    """Point a shard's outcome at an object that holds `table` instead."""
    data = write_parquet(table, footer={}, level=1)
    digest = digest_of_bytes(data)
    key = f"results/other/{digest[7:20]}.parquet"
    world.store.put_if_absent(key, data)
    changes = {"result_key": key, "result_digest": digest, "results": table.num_rows}
    assert row.outcome is not None
    return replace(row, outcome=replace(row.outcome, **changes))
