"""The keys of a `defs.yaml`, typed strictly: an unknown key, a wrong type or a negative limit is refused by name.

`dg check yaml` and editors read the JSON Schema of `JobModel`; `docs/declaring-a-job.md` lists the same keys.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["block", "warn"]


class StrictModel(BaseModel):
    """No unknown keys, and no value is turned into another type: `"20"` is not 20."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ColumnsModel(StrictModel):
    """Which columns of the source are read."""

    id: str = Field("record_id", min_length=1, description="column of record ids")
    text: str = Field("text", min_length=1, description="column of the text that the model reads")
    carry: list[str] = Field([], description="columns copied to every result; a prompt may use them")
    access: str | None = Field(None, description="column of access labels, inherited by every result")
    id_type: Literal["string", "integer"] = Field("string", description="whether integer ids are taken as text")


class InputModel(StrictModel):
    """Where the records are."""

    uri: str = Field(min_length=1, description="file, folder or s3:// prefix; relative to the defs.yaml")
    columns: ColumnsModel = Field(default_factory=lambda: ColumnsModel.model_validate({}))
    limit: int | None = Field(None, ge=1, description="take only this many records, from the first")


class ModelModel(StrictModel):
    """The pinned model and how its engine is built."""

    name: str = Field(min_length=1, description="name that people read")
    path: str = Field(min_length=1, description="local model folder; relative to the project's root")
    digest: str = Field(description="digest of the model folder: sha256:<64 hex digits>")
    engine: Literal["vllm", "fake"] = "vllm"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    max_model_len: int = Field(4096, ge=1, description="tokens of prompt and answer together")
    max_num_seqs: int = Field(32, ge=1, description="requests in flight")
    max_num_batched_tokens: int = Field(2048, ge=1, description="tokens of one engine step")
    enforce_eager: bool = False
    gpu_memory_utilization: float | None = Field(None, gt=0, le=1)


class DecodingModel(StrictModel):
    """How the model answers."""

    max_tokens: int = Field(ge=1, description="tokens of one answer")
    max_tokens_retry: int | None = Field(None, ge=1, description="larger limit after a cut-off answer")
    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int = 0


class LimitsModel(StrictModel):
    """Bounds on one record."""

    input_tokens_max: int = Field(2048, ge=1, description="tokens of one record's text")
    attempts_max: int = Field(3, ge=1, description="failed tries before a record is a dead letter")


class GatesModel(StrictModel):
    """Which checks stand in the way of publishing."""

    coverage: Severity = "block"
    schema_: Severity = Field("block", alias="schema")  # pydantic's BaseModel has a method of that name


class JobModel(StrictModel):
    """One declared job: the `attributes` of a `batch_assets.components.BatchJob`."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$", description="asset group and first part of every asset key")
    description: str = ""
    owners: list[str] = Field([], description="e-mail addresses or team:<name>")
    input: InputModel
    model: ModelModel
    prompt: str = Field("prompt.yaml", min_length=1, description="prompt file beside the defs.yaml")
    output_schema: str = Field("output_schema.json", min_length=1, description="JSON Schema file beside it")
    decoding: DecodingModel
    limits: LimitsModel = Field(default_factory=lambda: LimitsModel.model_validate({}))
    shard_size: int = Field(5_000, ge=1, description="records of one shard")
    gates: GatesModel = Field(default_factory=lambda: GatesModel.model_validate({}))


class ExampleModel(StrictModel):
    """One worked example as two chat turns."""

    user: str = Field(min_length=1)
    assistant: str = Field(min_length=1, description="the exact text that the model should answer")


class PromptModel(StrictModel):
    """A prompt file."""

    system: str = Field(min_length=1, description="instruction: the shared prefix of every request")
    user: str = Field("{text}", description="the record's turn; {text} and {column} are filled in")
    examples: list[ExampleModel] = Field([])
