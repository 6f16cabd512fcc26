"""What is wrong in a job's folder is said with the file and the line or the field, before anything runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from batch_assets.domain.errors import InvalidSpec
from resources.grammar import check_grammar, require_grammar
from resources.job_file.model import JobModel
from resources.job_file.read import declared_jobs, load_job_spec

DOCUMENT = Path(__file__).parents[2] / "docs" / "declaring-a-job.md"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"category": {"type": "string", "enum": ["card", "other"]}, "urgent": {"type": "boolean"}},
    "required": ["category", "urgent"],
    "additionalProperties": False,
}
DEFS = f"""\
type: batch_assets.components.BatchJob
attributes:
  name: tickets
  input:
    uri: records.jsonl
    columns:
      carry: [lang]
    limit: 10
  model:
    name: fake
    path: models/fake
    digest: sha256:{"0" * 64}
    engine: fake
  decoding:
    max_tokens: 100
  shard_size: 10
"""
PROMPT = """\
system: Sort the message.
user: "{lang}: {text}"
examples:
  - user: my card is gone
    assistant: '{"category": "card", "urgent": true}'
"""


class Folder:
    """A job's folder that a test spoils."""

    def __init__(self, root: Path) -> None:
        (root / "pyproject.toml").write_text("")
        self.path = root / "jobs" / "tickets"
        self.path.mkdir(parents=True)
        self.defs = self.path / "defs.yaml"
        self.prompt = self.path / "prompt.yaml"
        self.schema = self.path / "output_schema.json"
        self.defs.write_text(DEFS)
        self.prompt.write_text(PROMPT)
        self.schema.write_text(json.dumps(SCHEMA))
        (self.path / "records.jsonl").write_text("")

    def edit(self, old: str, new: str) -> None:
        """Replace text of the defs.yaml."""
        text = self.defs.read_text()
        assert old in text
        self.defs.write_text(text.replace(old, new))

    def refusal(self) -> str:
        """Return what loading the job says, without the folder's own place."""
        with pytest.raises(InvalidSpec) as caught:
            load_job_spec(self.defs)
        return str(caught.value).replace(f"{self.path}/", "")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder whose job is right."""
    return Folder(tmp_path)


def test_a_right_one(folder: Folder) -> None:
    """Places are made absolute: the input beside the file, the model below the project's root."""
    spec = load_job_spec(folder.defs)
    assert spec.input.uri == str(folder.path / "records.jsonl")
    assert spec.model.path == str(folder.path.parents[1] / "models" / "fake")
    assert spec.input.columns.carry == ("lang",)
    assert spec.prompt.examples[0].assistant == '{"category": "card", "urgent": true}'
    assert spec.gates.coverage == "block"


def test_an_s3_input_is_kept_as_it_is(folder: Folder) -> None:
    """A prefix in S3 is not a file beside the defs.yaml."""
    folder.edit("uri: records.jsonl", "uri: s3://bucket/prefix/")
    assert load_job_spec(folder.defs).input.uri == "s3://bucket/prefix/"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("limit: 10", "limits: 10", "defs.yaml:8: attributes.input.limits: unknown key"),
        ("shard_size: 10", "shards: 10", "defs.yaml:16: attributes.shards: unknown key"),
        ("limit: 10", "limit: -1", "defs.yaml:8: attributes.input.limit: input should be greater than or equal to 1"),
        ("max_tokens: 100", "max_tokens: 0", "defs.yaml:15: attributes.decoding.max_tokens: input should be greater"),
        ("shard_size: 10", 'shard_size: "10"', "defs.yaml:16: attributes.shard_size: input should be a valid integer"),
        ("shard_size: 10", "shard_size: true", "defs.yaml:16: attributes.shard_size: input should be a valid integer"),
        ("    max_tokens: 100\n", "    seed: 1\n", "defs.yaml:14: attributes.decoding.max_tokens: is required"),
        ("name: tickets", "name: My Tickets", "defs.yaml:3: attributes.name: string should match"),
        ("engine: fake", "engine: gpt", "defs.yaml:13: attributes.model.engine: input should be 'vllm' or 'fake'"),
        ("sha256:0", "sha256:X", "defs.yaml:12: attributes.model.digest: must be 'sha256:' and 64 hex digits"),
        ("carry: [lang]", "carry: [text]", "defs.yaml:6: attributes.input.columns: column text is named twice"),
        ("uri: records.jsonl", "uri: gone.jsonl", "defs.yaml:5: attributes.input.uri: no file or folder 'gone.jsonl'"),
        ("shard_size: 10", "prompt: gone.yaml", "defs.yaml:16: attributes.prompt: no file 'gone.yaml' beside it"),
        ("shard_size: 10", "output_schema: x.json", "defs.yaml:16: attributes.output_schema: no file 'x.json'"),
        ("shard_size: 10", "name: again", "defs.yaml:16: attributes.name: is there twice"),
        ("name: fake", 'name: "{{ env.MODEL }}"', "defs.yaml:10: attributes.model.name: templates are not filled in"),
        ("carry: [lang]", "carry: [language]", "prompt.yaml:2: user: unknown column '{lang}'; known: language, text"),
        ("name: tickets", "name: [", "defs.yaml:5: expected"),
        ("type: batch", "type: other.batch", "defs.yaml:1: type: must be batch_assets.components.BatchJob"),
    ],
)
def test_a_wrong_defs_yaml(folder: Folder, old: str, new: str, message: str) -> None:
    """A wrong key, type, limit, place or name is reported with its line and its full name."""
    folder.edit(old, new)
    assert folder.refusal().startswith(message)


def test_every_problem_is_told_at_once(folder: Folder) -> None:
    """Two wrong keys are two lines, not two attempts."""
    folder.edit("limit: 10", "limits: 10")
    folder.edit("engine: fake", "engines: fake")
    assert [line.split(": ")[0] for line in folder.refusal().splitlines()] == ["defs.yaml:8", "defs.yaml:13"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user: '{text}'\n", "prompt.yaml:1: system: is required"),
        ("system: Sort.\nexample: []\n", "prompt.yaml:2: example: unknown key"),
        ("system: Sort.\nuser: '{text.x}'\n", "prompt.yaml:2: user: '{text.x}' is not a plain column name"),
        ("system: Sort.\nuser: '{text'\n", "prompt.yaml:2: user: expected '}'"),
        ("system: Sort.\nuser: hello\n", "prompt.yaml:2: user: does not hold '{text}'"),
        ("system: Sort.\nexamples:\n- user: a\n", "prompt.yaml:3: examples.0.assistant: is required"),
        ("system: Sort.\nexamples:\n- {user: a, assistant: yes indeed}\n", "prompt.yaml: examples.0.assistant: is not"),
    ],
)
def test_a_wrong_prompt(folder: Folder, text: str, message: str) -> None:
    """The prompt file has keys and lines of its own."""
    folder.prompt.write_text(text)
    assert folder.refusal().startswith(message)


def test_an_example_that_breaks_the_output_schema(folder: Folder) -> None:
    """A worked example must not teach the model what the schema forbids."""
    folder.prompt.write_text(PROMPT.replace('"card"', '"cards"'))
    told = folder.refusal()
    assert told.startswith("prompt.yaml: examples.0.assistant: category does not satisfy the output schema")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "output_schema.json:1: is not JSON"),
        ("[]", "output_schema.json: type: must be 'object'"),
        ('{"type": "object", "type": "object"}', "output_schema.json: key type is there twice"),
        (
            '{"type": "object", "properties": {"a": {"type": "text"}}}',
            "output_schema.json: properties.a.type: is not valid JSON Schema",
        ),
        ('{"type": "object", "properties": {"a": {"$ref": "#/gone"}}}', "output_schema.json: the schema: is not valid"),
    ],
)
def test_a_wrong_output_schema(folder: Folder, text: str, message: str) -> None:
    """The output schema is JSON, and JSON Schema, and of an object."""
    folder.schema.write_text(text)
    assert folder.refusal().startswith(message)


def test_jobs_are_found_by_name(tmp_path: Path, folder: Folder) -> None:
    """Other components' files are none of our business; two jobs of one name are refused, and both are named."""
    other = tmp_path / "jobs" / "other"
    other.mkdir()
    (other / "defs.yaml").write_text("type: dagster.DefsFolderComponent\n")
    assert declared_jobs(tmp_path) == {"tickets": folder.defs}
    (other / "defs.yaml").write_text(DEFS)
    with pytest.raises(InvalidSpec, match="tickets is declared by"):
        declared_jobs(tmp_path)


def test_the_json_schema_of_the_keys_is_valid_for_a_right_one(folder: Folder) -> None:
    """`dg check yaml` and editors use the JSON Schema of the same model: it accepts what the reader accepts."""
    import jsonschema_rs

    validator = jsonschema_rs.validator_for(JobModel.model_json_schema())
    attributes = yaml.safe_load(folder.defs.read_text())["attributes"]
    validator.validate(attributes)
    assert not validator.is_valid({**attributes, "limits": {"attempts_max": -1}})


def test_the_fake_engine_needs_no_grammar(folder: Folder, tmp_path: Path) -> None:
    """A test's job does not wait for the real engine to be imported."""
    verdict = require_grammar(load_job_spec(folder.defs), cache_dir=tmp_path / "cache")
    assert verdict.status == "not checked"
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_a_schema_that_the_engine_cannot_compile(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would refuse each request of such a job: it is refused when it is loaded, and asked about once."""
    broken = {**SCHEMA, "properties": {**SCHEMA["properties"], "score": {"type": "number", "multipleOf": 0.5}}}
    folder.schema.write_text(json.dumps(broken))
    folder.edit("engine: fake", "engine: vllm")
    spec = load_job_spec(folder.defs)
    with pytest.raises(InvalidSpec, match="output_schema: job tickets: the engine cannot compile it"):
        require_grammar(spec, cache_dir=tmp_path / "cache")
    ask: Callable[..., Any] = pytest.fail
    monkeypatch.setattr("resources.grammar._ask", ask)  # the second answer comes from the disk
    assert check_grammar(spec.output_schema, cache_dir=tmp_path / "cache").status == "refused"


def test_the_document_names_every_key(folder: Folder) -> None:
    """docs/declaring-a-job.md lists the keys of the model, all of them and no others, and its example loads."""
    text = DOCUMENT.read_text()
    told = set(re.findall(r"^\| `([a-z_.]+)` \|", text.split("## Keys")[1].split("## What a mistake")[0], re.MULTILINE))
    assert told == set(dotted_keys(JobModel.model_json_schema()))
    defs, prompt = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (schema,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    folder.defs.write_text(defs)
    folder.prompt.write_text(prompt)
    folder.schema.write_text(schema)
    assert load_job_spec(folder.defs).name == "product_reviews"


def dotted_keys(schema: dict[str, Any], part: dict[str, Any] | None = None, prefix: str = "") -> Iterator[str]:
    """Return the names of a model's leaves, e.g. `input.columns.id`."""
    for name, kind in (part or schema)["properties"].items():
        reference = kind.get("$ref")
        if reference is None:
            yield prefix + name
        else:
            yield from dotted_keys(schema, schema["$defs"][reference.rpartition("/")[2]], f"{prefix}{name}.")
