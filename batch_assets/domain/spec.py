"""What an engineer declares: a job spec, and the recipe and version names that follow from it.

Values only. Reading YAML and checking files is the component's work; the limits of each field are checked here, so
that no spec made by any path can hold a negative limit.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from batch_assets.domain.canonical import canonical_json, digest_of, short
from batch_assets.domain.errors import InvalidSpec

JOB_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
CHAT_ROLES = ("system", "user", "assistant")


def _require(condition: object, where: str, why: str) -> None:
    if not condition:
        raise InvalidSpec(f"{where}: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputColumns:
    """Which columns of the source a job reads.

    `carry` are copied to every result (labels, language, source); `access` names the column of access labels, which
    a result inherits unchanged (I9). `id_type` says how an integer id in JSON lines is meant: `string` refuses it,
    `integer` takes its decimal text; nothing is coerced unless it is declared.
    """

    id: str = "record_id"
    text: str = "text"
    carry: tuple[str, ...] = ()
    access: str | None = None
    id_type: Literal["string", "integer"] = "string"

    def __post_init__(self) -> None:
        """Refuse empty and repeated names."""
        names = [self.id, self.text, *self.carry, *([self.access] if self.access else [])]
        _require(all(names), "input.columns", "a column name is empty")
        repeated = sorted({name for name in names if names.count(name) > 1})
        _require(not repeated, "input.columns", f"column {', '.join(repeated)} is named twice")

    @property
    def all(self) -> tuple[str, ...]:
        """Every column read, id and text first."""
        return (self.id, self.text, *self.carry, *((self.access,) if self.access else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """Where the records are: a file, a folder or a prefix (Parquet, CSV, JSON lines), local or `s3://`."""

    uri: str
    columns: InputColumns = field(default_factory=InputColumns)
    limit: int | None = None

    def __post_init__(self) -> None:
        """Refuse an empty place and a limit below one."""
        _require(bool(self.uri.strip()), "input.uri", "is empty")
        _require(self.limit is None or self.limit >= 1, "input.limit", f"must be at least 1, is {self.limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The pinned model and how its engine is built.

    `digest` is the digest of the local model folder's manifest (weights, tokenizer, chat template, config). `path` is
    where this machine keeps the folder: it does not change results, so it is not in the recipe; nor are
    `max_num_seqs` and `gpu_memory_utilization`, which only change speed. `engine: fake` answers at once from the
    prompt's hash, for tests and benchmarks; it is in the recipe, so that no fake row can pass for a real one (I2).
    """

    name: str
    path: str
    digest: str
    engine: Literal["vllm", "fake"] = "vllm"
    task: Literal["generate"] = "generate"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    max_model_len: int = 4096
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 2048
    enforce_eager: bool = False
    gpu_memory_utilization: float | None = None

    def __post_init__(self) -> None:
        """Refuse sizes below one and a digest that is not one."""
        for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens"):
            _require(getattr(self, name) >= 1, f"model.{name}", f"must be at least 1, is {getattr(self, name)}")
        good = re.fullmatch(r"sha256:[0-9a-f]{64}", self.digest) is not None
        _require(good, "model.digest", f"must be 'sha256:' and 64 hex digits, is {self.digest!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One worked example: a user turn and the exact text the model should answer."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSpec:
    """The instruction, worked examples as chat turns, and the template of the record's own turn.

    `user` may hold `{text}` and `{column}` for each carried column; anything else in braces is refused. Values are put
    in as text and are never read as template or control tokens again.
    """

    system: str
    user: str = "{text}"
    examples: tuple[Example, ...] = ()

    def fields(self) -> tuple[str, ...]:
        """Return the names in braces in `user`, in order.

        Raises:
            InvalidSpec: the braces do not match, or hold an index, attribute, conversion or format.
        """
        try:
            parsed = list(string.Formatter().parse(self.user))
        except ValueError as error:
            raise InvalidSpec(f"prompt.user: {error}") from None
        names = []
        for _, name, format_spec, conversion in parsed:
            if name is None:
                continue
            plain = name.isidentifier() and not format_spec and conversion is None
            _require(plain, "prompt.user", f"'{{{name}}}' is not a plain column name")
            names.append(name)
        return tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSpec:
    """How the model answers. `max_tokens_retry` is the larger limit for a record whose answer was cut off."""

    max_tokens: int
    max_tokens_retry: int | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values that the engine would refuse later."""
        _require(self.max_tokens >= 1, "decoding.max_tokens", f"must be at least 1, is {self.max_tokens}")
        larger = self.max_tokens_retry is None or self.max_tokens_retry > self.max_tokens
        _require(larger, "decoding.max_tokens_retry", "must be larger than max_tokens")
        _require(self.temperature >= 0, "decoding.temperature", f"must not be negative, is {self.temperature}")
        _require(0 < self.top_p <= 1, "decoding.top_p", f"must be in (0, 1], is {self.top_p}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSpec:
    """Bounds on one record: tokens of its text, and tries that may be its own fault (I4)."""

    input_tokens_max: int = 2048
    attempts_max: int = 3

    def __post_init__(self) -> None:
        """Refuse limits below one."""
        for name in ("input_tokens_max", "attempts_max"):
            _require(getattr(self, name) >= 1, f"limits.{name}", f"must be at least 1, is {getattr(self, name)}")


Severity = Literal["block", "warn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatesSpec:
    """Which checks stand in the way of publishing (`block`) and which only speak (`warn`)."""

    coverage: Severity = "block"
    schema: Severity = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One declared job. `output_schema` is the canonical JSON text of the schema of one answer."""

    name: str
    input: InputSpec
    model: ModelSpec
    prompt: PromptSpec
    decoding: DecodingSpec
    output_schema: str
    limits: LimitsSpec = field(default_factory=LimitsSpec)
    gates: GatesSpec = field(default_factory=GatesSpec)
    shard_size: int = 5_000
    description: str = ""
    owners: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what involves more than one field."""
        good = JOB_NAME.fullmatch(self.name) is not None
        _require(good, "name", f"must be lower-case letters, digits and _, is {self.name!r}")
        _require(self.shard_size >= 1, "shard_size", f"must be at least 1, is {self.shard_size}")
        known = {"text", *self.input.columns.carry}
        for name in self.prompt.fields():
            _require(name in known, "prompt.user", f"unknown column '{{{name}}}'; known: {', '.join(sorted(known))}")
        _require("text" in self.prompt.fields(), "prompt.user", "does not hold '{text}': every answer would be alike")

    @property
    def schema(self) -> dict[str, Any]:
        """The output schema as a value."""
        loaded: dict[str, Any] = json.loads(self.output_schema)
        return loaded

    def recipe(self) -> dict[str, Any]:
        """Everything but the records that can change a result, as plain JSON values."""
        return {
            "task": self.model.task,
            "engine": self.model.engine,
            "model_digest": self.model.digest,
            "dtype": self.model.dtype,
            "max_model_len": self.model.max_model_len,
            "prompt": asdict(self.prompt),
            "decoding": asdict(self.decoding),
            "output_schema": json.loads(self.output_schema),
            "limits": asdict(self.limits),
        }

    @property
    def recipe_digest(self) -> str:
        """Digest of the recipe; Dagster's code version of the job version's asset."""
        return digest_of(self.recipe())

    def to_json(self) -> dict[str, Any]:
        """The whole spec as plain JSON values; `from_json` gives it back."""
        value: dict[str, Any] = json.loads(canonical_json(asdict(self)))
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JobSpec:
        """Build a spec from `to_json`'s form."""
        columns = value["input"]["columns"]
        examples = tuple(Example(**example) for example in value["prompt"]["examples"])
        return cls(
            name=value["name"],
            input=InputSpec(
                **{**value["input"], "columns": InputColumns(**{**columns, "carry": tuple(columns["carry"])})}
            ),
            model=ModelSpec(**value["model"]),
            prompt=PromptSpec(**{**value["prompt"], "examples": examples}),
            decoding=DecodingSpec(**value["decoding"]),
            output_schema=value["output_schema"],
            limits=LimitsSpec(**value["limits"]),
            gates=GatesSpec(**value["gates"]),
            shard_size=value["shard_size"],
            description=value["description"],
            owners=tuple(value["owners"]),
        )


def version_name(spec: JobSpec, snapshot_digest: str) -> str:
    """Return the job version's name, `v-` and 12 hex digits of the digest of snapshot, columns and recipe.

    Shard size, fleet size, paths and gates do not change a result, so they are not in it.
    """
    return "v-" + short(
        digest_of(
            {
                "job": spec.name,
                "snapshot": snapshot_digest,
                "columns": asdict(spec.input.columns),
                "recipe": spec.recipe_digest,
            }
        )
    )
