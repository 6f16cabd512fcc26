"""Which engine a spec asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

from batch_assets.domain.ports import Engine
from batch_assets.domain.spec import JobSpec
from resources.models.digest import verify_model
from worker.engine.fake import FakeEngine, FakeFaults


def build_engine(spec: JobSpec, model_folder: Path, *, fake_faults: str) -> Engine:
    """Verify the weights, then build the engine.

    Raises:
        ModelDigestMismatch: a file of the model folder is not the pinned one.
        EngineUnusable: the engine refuses the model.
    """
    if spec.model.engine == "fake":
        return FakeEngine(
            spec.schema,
            seqs_per_step=spec.model.max_num_seqs,
            faults=FakeFaults.from_json(fake_faults),
            text_of=_decoder(model_folder / "tokenizer.json"),
        )
    verify_model(model_folder, spec.model.digest)
    from worker.engine.vllm import VllmEngine  # noqa: PLC0415 - imports vLLM

    return VllmEngine(spec, model_folder)


def _decoder(tokenizer_file: Path) -> Callable[[list[int]], str]:
    """Return what turns prompt tokens back into text; the tokenizer is read when it is first needed."""
    if not tokenizer_file.is_file():
        return lambda ids: bytes(ids).decode(errors="replace")

    @cache
    def tokenizer() -> Tokenizer:
        return Tokenizer.from_file(str(tokenizer_file))

    return lambda ids: str(tokenizer().decode(ids))
