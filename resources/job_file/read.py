"""A job's folder becomes a `JobSpec`: `defs.yaml`, its prompt file and its output schema, read and checked together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from batch_assets.domain.errors import InvalidSpec
from batch_assets.domain.spec import (
    DecodingSpec,
    Example,
    GatesSpec,
    InputColumns,
    InputSpec,
    JobSpec,
    LimitsSpec,
    ModelSpec,
    PromptSpec,
)
from resources.job_file.answer_schema import check_examples, read_output_schema
from resources.job_file.model import InputModel, JobModel, ModelModel, PromptModel
from resources.job_file.yaml_source import YamlSource

COMPONENT_TYPE = "batch_assets.components.BatchJob"
ATTRIBUTES = "attributes"


def load_job_spec(defs_yaml: Path) -> JobSpec:
    """Read a job's declaration and the files beside it; nothing else is opened and nothing runs.

    Raises:
        InvalidSpec: anything in them is wrong; the message begins with the file and says the line or the field.
    """
    source = YamlSource.read(defs_yaml)
    _check_type(source)
    _refuse_templates(source, source.value[ATTRIBUTES], (ATTRIBUTES,))
    job = source.validated(JobModel, source.value[ATTRIBUTES], (ATTRIBUTES,))
    folder = defs_yaml.parent
    prompt = _read_prompt(_beside(source, folder, "prompt", job.prompt))
    output_schema = read_output_schema(_beside(source, folder, "output_schema", job.output_schema))
    check_examples(folder / job.prompt, prompt.examples, output_schema)
    try:
        return _spec(source, job, prompt, output_schema)
    except InvalidSpec as error:
        raise _located(error, source, folder / job.prompt) from None


def declared_jobs(root: Path) -> dict[str, Path]:
    """Return the `defs.yaml` of every job declared below `root`, by job name, in name order.

    Raises:
        InvalidSpec: a file cannot be read, or two files declare one name.
    """
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("defs.yaml")):
        value = YamlSource.read(path).value
        if not isinstance(value, dict) or value.get("type") != COMPONENT_TYPE:
            continue  # another component's file is none of our business
        attributes = value.get(ATTRIBUTES)
        name = attributes.get("name") if isinstance(attributes, dict) else None
        if not isinstance(name, str):
            raise InvalidSpec(f"{path}: attributes.name: is required")
        if name in found:
            raise InvalidSpec(f"{path}: attributes.name: {name} is declared by {found[name]} too")
        found[name] = path
    return dict(sorted(found.items()))


def project_root(start: Path) -> Path:
    """Return the nearest folder at or above `start` that holds a pyproject.toml, else the working directory."""
    folders = [start.absolute(), *start.absolute().parents]
    return next((folder for folder in folders if (folder / "pyproject.toml").is_file()), Path.cwd())


def _check_type(source: YamlSource) -> None:
    if not isinstance(source.value, dict):
        raise source.error((), "must be a mapping with 'type' and 'attributes'")
    if source.value.get("type") != COMPONENT_TYPE:
        raise source.error(("type",), f"must be {COMPONENT_TYPE}, is {source.value.get('type')!r}")
    if not isinstance(source.value.get(ATTRIBUTES), dict):
        raise source.error((ATTRIBUTES,), "is required")


def _refuse_templates(source: YamlSource, value: Any, place: tuple[str | int, ...]) -> None:
    """A declaration means the same on every machine: what differs between machines is a setting."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, str) and "{{" in item:
            raise source.error((*place, key), "templates are not filled in here; use BATCH_ASSETS_ settings")
        _refuse_templates(source, item, (*place, key))


def _beside(source: YamlSource, folder: Path, field: str, name: str) -> Path:
    if not (folder / name).is_file():
        raise source.error((ATTRIBUTES, field), f"no file {name!r} beside it")
    return folder / name


def _read_prompt(path: Path) -> PromptSpec:
    source = YamlSource.read(path)
    prompt = source.validated(PromptModel, source.value)
    examples = tuple(Example(user=item.user, assistant=item.assistant) for item in prompt.examples)
    return PromptSpec(system=prompt.system, user=prompt.user, examples=examples)


def _spec(source: YamlSource, job: JobModel, prompt: PromptSpec, output_schema: str) -> JobSpec:
    return JobSpec(
        name=job.name,
        description=job.description.strip(),
        owners=tuple(job.owners),
        input=_input(source, job.input),
        model=_model(source.path, job.model),
        prompt=prompt,
        output_schema=output_schema,
        decoding=DecodingSpec(**job.decoding.model_dump()),
        limits=LimitsSpec(**job.limits.model_dump()),
        gates=GatesSpec(**job.gates.model_dump(by_alias=True)),
        shard_size=job.shard_size,
    )


def _input(source: YamlSource, item: InputModel) -> InputSpec:
    columns = InputColumns(**{**item.columns.model_dump(), "carry": tuple(item.columns.carry)})
    uri = item.uri
    if "://" not in uri and not Path(uri).is_absolute():
        beside = source.path.parent.absolute() / uri
        if not beside.exists():
            raise source.error((ATTRIBUTES, "input", "uri"), f"no file or folder {uri!r} beside it")
        uri = str(beside)
    return InputSpec(uri=uri, columns=columns, limit=item.limit)


def _model(defs_yaml: Path, item: ModelModel) -> ModelSpec:
    # An absolute path stays as it is: joining a folder with one gives the absolute one.
    path = project_root(defs_yaml.parent) / item.path
    return ModelSpec(**{**item.model_dump(), "path": str(path)})


def _located(error: InvalidSpec, source: YamlSource, prompt_path: Path) -> InvalidSpec:
    """Give a complaint of the domain, which knows fields only, its file and line."""
    text = str(error)
    if text.startswith(str(source.path)):
        return error
    field, _, why = text.partition(": ")
    if field.startswith("prompt."):
        return YamlSource.read(prompt_path).error(field.split(".")[1:], why)
    return source.error((ATTRIBUTES, *field.split(".")), why)
