"""What a model said, as a result row or as the reason why it is none."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import orjson

from batch_assets.domain.attempt import InvalidOutput, RecordFailure, TransientFailure, Tries, Truncated
from batch_assets.domain.lease import Lease
from batch_assets.domain.plan import Shard
from batch_assets.domain.ports import EngineOutput
from batch_assets.domain.snapshot import Snapshot
from batch_assets.domain.spec import JobSpec
from resources.results.table_schema import OutputColumns
from resources.snapshots.read import SourceRow

OUTPUT_KEPT_BYTES = 10_000  # of an answer in a dead letter


class AnswerReader:
    """Validates answers against the job's output schema and makes the rows of results and dead letters."""

    def __init__(self, spec: JobSpec, version: str, snapshot: Snapshot) -> None:
        self._validator = jsonschema_rs.validator_for(spec.schema)
        self._columns = OutputColumns(spec)
        self._carry = spec.input.columns.carry
        self._has_access = spec.input.columns.access is not None
        self._snapshot = snapshot
        self._constant = {
            "job_version": version,
            "recipe_digest": spec.recipe_digest,
            "model_digest": spec.model.digest,
        }

    def read(self, output: EngineOutput) -> dict[str, Any]:
        """Return the answer's columns.

        An answer that reached the token limit is parsed before it is called truncated: the text may be complete with
        only the end mark missing. It is never repaired.

        Raises:
            TransientFailure: the engine gave up the request. Truncated, InvalidOutput: the answer is not usable.
        """
        if output.finish_reason == "abort":
            raise TransientFailure("the engine gave the request up")
        try:
            answer = orjson.loads(output.text)
        except orjson.JSONDecodeError as error:
            if output.finish_reason == "length":
                raise Truncated(
                    f"cut off at {output.output_tokens} tokens; a larger decoding.max_tokens may help", output.text
                ) from None
            raise InvalidOutput(f"not JSON: {error}", output.text) from None
        if not self._validator.is_valid(answer):
            reasons = [
                f"{'/'.join(map(str, error.instance_path)) or 'answer'}: {error.message}"
                for error in self._validator.iter_errors(answer)
            ]
            raise InvalidOutput("; ".join(reasons[:5]), output.text)
        return self._columns.of(answer)

    def result(
        self, lease: Lease, row: SourceRow, output: EngineOutput, answer: Mapping[str, Any], tries: Tries, wall_s: float
    ) -> dict[str, Any]:
        """Return a row of the result table."""
        return {
            "record_id": row.record_id,
            **answer,
            **dict(zip(self._carry, row.carry, strict=True)),
            **({"access": row.access} if self._has_access else {}),
            **self._constant,
            "shard": lease.shard,
            "row": row.row,
            "epoch": lease.epoch,
            "worker": lease.worker,
            "attempts": tries.attempts,
            "infrastructure_losses": tries.infrastructure,
            "finish_reason": output.finish_reason,
            "prompt_tokens": output.prompt_tokens,
            "cached_tokens": output.cached_tokens,
            "output_tokens": output.output_tokens,
            "output_sha256": hashlib.sha256(output.text.encode()).hexdigest(),
            "answered_at": datetime.fromtimestamp(wall_s, tz=UTC),
        }

    def dead_letter(
        self,
        lease: Lease,
        shard: Shard,
        row: SourceRow,
        failure: RecordFailure,
        tries: Tries,
        output: EngineOutput | None,
        wall_s: float,
    ) -> dict[str, Any]:
        """Return a row of the dead-letter table; `tries` counts the last failure too."""
        object_index, object_row = shard.locate(row.row)
        said = failure.output.encode(errors="replace")[:OUTPUT_KEPT_BYTES] if failure.output is not None else None
        return {
            "record_id": row.record_id,
            "object_key": self._snapshot.objects[object_index].key,
            "object_row": object_row,
            "failure": failure.name,
            "reason": failure.message,
            "output": said,
            **self._constant,
            "shard": lease.shard,
            "row": row.row,
            "epoch": lease.epoch,
            "worker": lease.worker,
            "attempts": tries.own + tries.infrastructure,
            "infrastructure_losses": tries.infrastructure,
            "finish_reason": output.finish_reason if output else "none",
            "prompt_tokens": output.prompt_tokens if output else 0,
            "output_tokens": output.output_tokens if output else 0,
            "failed_at": datetime.fromtimestamp(wall_s, tz=UTC),
        }
