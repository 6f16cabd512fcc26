"""The real engine: vLLM's synchronous engine driven step by step, so that one bad record never aborts another.

Facts this rests on were measured on vLLM 0.32 (see docs/architecture.md, "Engine"):
- a rejected prompt raises `VLLMValidationError`, which is no ValueError, and leaves the engine whole;
- killing the engine core leaves `step()` waiting for ever, because nothing is put into its output queue: `_Watcher`
  watches the engine's processes and puts the error there itself;
- only the engine-level `disable_any_whitespace` keeps the grammar from spending tokens on white space.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from multiprocessing import connection
from pathlib import Path
from typing import Any

from batch_assets.domain.attempt import Refused
from batch_assets.domain.errors import EngineDead, EngineUnusable
from batch_assets.domain.ports import EngineOutput, EngineRequest
from batch_assets.domain.spec import JobSpec

CLOSE_TIMEOUT_S = 2


def _prepare_environment() -> None:
    """Set what vLLM reads at import, unless the user has: offline, and on a CPU all the cores that are ours."""
    cores = sorted(os.sched_getaffinity(0))
    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_CPU_KVCACHE_SPACE": "2",
    }.items():
        os.environ.setdefault(name, value)


class VllmEngine:
    """See the module's docstring. Build it in the main thread: its children die with the thread that started them.

    Raises:
        EngineUnusable: vLLM is not installed, or refuses the model or its settings.
    """

    def __init__(self, spec: JobSpec, model_folder: Path) -> None:
        _prepare_environment()
        try:
            from vllm import SamplingParams  # noqa: PLC0415 - seconds of import, and absent on a control plane
            from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415
            from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams  # noqa: PLC0415
            from vllm.v1.engine.exceptions import EngineDeadError  # noqa: PLC0415
            from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415
        except ImportError as error:
            raise EngineUnusable(f"vLLM cannot be imported ({error}); install the extra 'cpu' or 'gpu'") from error
        model = spec.model
        options: dict[str, Any] = {
            "model": str(model_folder),
            "dtype": model.dtype,
            "max_model_len": model.max_model_len,
            "max_num_seqs": model.max_num_seqs,
            "max_num_batched_tokens": model.max_num_batched_tokens,
            "enforce_eager": model.enforce_eager,
            "enable_prefix_caching": True,
            "disable_log_stats": True,  # nobody reads them, and they cost a little at each step
            "seed": spec.decoding.seed,
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        }
        if model.gpu_memory_utilization is not None:
            options["gpu_memory_utilization"] = model.gpu_memory_utilization
        self._dead_error = EngineDeadError
        try:
            self._engine = LLMEngine.from_engine_args(EngineArgs(**options))
        except Exception as error:  # whatever vLLM raises here, no retry with the same spec can help
            raise EngineUnusable(f"vLLM cannot load {model.name} from {model_folder}: {error}") from error
        self._sampling = {
            limit: SamplingParams(
                temperature=spec.decoding.temperature,
                top_p=spec.decoding.top_p,
                seed=spec.decoding.seed if spec.decoding.temperature > 0 else None,
                max_tokens=limit,
                output_kind=RequestOutputKind.FINAL_ONLY,
                structured_outputs=StructuredOutputsParams(json=spec.schema),
            )
            for limit in {spec.decoding.max_tokens, spec.decoding.max_tokens_retry or spec.decoding.max_tokens}
        }
        self._watcher = _Watcher(self._engine, EngineDeadError)
        self._tokens_moved = 0
        self._killed = ""
        self._count_tokens()

    def _count_tokens(self) -> None:
        # Only final outputs leave `step`; whether tokens move in between is seen where they come in from the core.
        core = self._engine.engine_core
        receive = core.get_output

        def received() -> Any:
            outputs = receive()
            self._tokens_moved += sum(len(item.new_token_ids) for item in outputs.outputs)
            return outputs

        core.get_output = received

    @property
    def tokens_moved(self) -> int:
        """Tokens that came from the engine core so far."""
        return self._tokens_moved

    def kill(self, reason: str) -> None:
        """Kill the engine's processes (their children die with them); a `step` that waits raises."""
        self._killed = reason
        self._watcher.kill()

    def submit(self, request: EngineRequest) -> None:
        """Add a request.

        Raises:
            Refused: vLLM rejects the prompt.
            EngineDead: the engine is gone.
        """
        prompt = {"prompt_token_ids": request.prompt_token_ids}
        try:
            self._engine.add_request(request.request_id, prompt, self._sampling[request.max_tokens])
        except self._dead_error as error:
            raise EngineDead(str(error)) from error
        except Exception as error:  # VLLMValidationError, TypeError, ...: the request's fault, the engine stands
            raise Refused(f"{type(error).__name__}: {error}") from error

    def step(self) -> list[EngineOutput]:
        """Advance once and return what finished.

        Raises:
            EngineDead: the engine is gone.
        """
        try:
            outputs = self._engine.step()
        except self._dead_error as error:
            raise EngineDead(self._killed or str(error)) from error
        return [
            EngineOutput(
                request_id=item.request_id,
                text=item.outputs[0].text,
                finish_reason=item.outputs[0].finish_reason or "abort",
                prompt_tokens=len(item.prompt_token_ids or ()),
                cached_tokens=item.num_cached_tokens or 0,
                output_tokens=len(item.outputs[0].token_ids),
            )
            for item in outputs
            if item.finished
        ]

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests; a dead engine has dropped them already."""
        try:
            self._engine.abort_request(list(request_ids))
        except self._dead_error:
            return

    def close(self) -> None:
        """Stop the engine's processes."""
        self._watcher.stop()
        self._engine.engine_core.shutdown(timeout=CLOSE_TIMEOUT_S)


class _Watcher:
    """A thread that waits for the engine's processes and wakes a `step()` that would wait for ever."""

    def __init__(self, engine: Any, dead_error: type[Exception]) -> None:
        self._stopped_reader, self._stopped_writer = connection.Pipe(duplex=False)
        manager = getattr(getattr(engine.engine_core, "resources", None), "engine_manager", None)
        self._processes = list(getattr(manager, "processes", ()))
        self._sentinels = [process.sentinel for process in self._processes]
        self._queue = getattr(engine.engine_core, "outputs_queue", None)
        self._error = dead_error
        if self._sentinels and self._queue is not None:
            threading.Thread(target=self._watch, name="engine-watcher", daemon=True).start()

    def _watch(self) -> None:
        ready = connection.wait([*self._sentinels, self._stopped_reader])
        if self._stopped_reader not in ready and self._queue is not None:
            self._queue.put_nowait(self._error())

    def kill(self) -> None:
        """Kill the engine core, stopped or not; should the kernel keep it, `step` is woken all the same."""
        for process in self._processes:
            process.kill()
        if self._queue is not None:
            self._queue.put_nowait(self._error())

    def stop(self) -> None:
        """End the thread."""
        self._stopped_writer.send_bytes(b"stop")
