"""The real vLLM loses its processes in the middle of a shard: the worker starts another engine and goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from batch_assets.domain.spec import DecodingSpec, JobSpec, LimitsSpec, ModelSpec
from resources.flow import scan_version
from resources.models.digest import manifest_digest
from tests.integration.faults.ending import conclude
from tests.integration.faults.hands import Hand
from tests.integration.faults.scene import Scene
from tests.integration.faults.stacks import Stack
from tests.integration.faults.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(
        not os.environ.get("BATCH_ASSETS_TEST_REAL_FAULTS"),
        reason="set BATCH_ASSETS_TEST_REAL_FAULTS=1: minutes of model loads",
    ),
]

RECORDS, IN_FLIGHT = 60, 10
STALL_S = 45.0  # a machine that is busy with other things must not look like an engine that stands still
WORK_S = 500.0
TEXTS = [
    f"My card number {number} was stolen and somebody has taken money. What can I do?" for number in range(RECORDS)
]


def on_vllm(model: Path) -> Callable[[JobSpec], JobSpec]:
    """Return what makes a job one of the small real model."""
    spec = ModelSpec(
        name="small",
        path=str(model),
        digest=manifest_digest(model),
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=1_024,
        max_num_seqs=8,
    )
    decoding, limits = DecodingSpec(max_tokens=80, max_tokens_retry=400), LimitsSpec(input_tokens_max=200)
    return lambda made: replace(made, model=spec, decoding=decoding, limits=limits)


def engine_process(worker: Hand, name: str) -> psutil.Process:
    """Return the engine's process of a name."""
    everybody = psutil.Process(worker.process.pid).children(recursive=True)
    (found,) = [process for process in everybody if process.name() == name]
    return found


@pytest.mark.parametrize(
    ("name", "signum"),
    [
        pytest.param("VLLM::EngineCore", signal.SIGKILL, id="core-killed"),
        pytest.param("VLLM::Worker", signal.SIGKILL, id="child-killed"),
        pytest.param("VLLM::EngineCore", signal.SIGSTOP, id="core-stopped"),
    ],
)
def test_a_process_of_the_engine_is_lost(embedded: Stack, small_model: Path, name: str, signum: signal.Signals) -> None:
    """Out of memory, a driver's fault, a kernel that hangs: the engine dies or stands still, and the worker does not.

    The records in flight are asked again on a new engine; nobody is charged, and the old engine's processes are gone.
    """
    with Scene(embedded, TEXTS, spec=on_vllm(small_model), part_records_max=5) as scene:
        worker = scene.worker("worker", engine_stall_s=STALL_S if signum is signal.SIGSTOP else 0)
        until(lambda: scene.committed >= 10, "ten committed results", within_s=WORK_S)
        engine = [engine_process(worker, each) for each in ("VLLM::EngineCore", "VLLM::Worker")]
        assert {process.pid for process in engine} <= {process.pid for process in scene.living}
        engine_process(worker, name).send_signal(signum)
        assert worker.wait(WORK_S) == 0, worker.log[-4_000:]
        _, alive = psutil.wait_procs(engine, timeout=10)
        assert not alive
        assert ("stood still" in worker.log) is (signum is signal.SIGSTOP)
        assert worker.log.count("engine starting") == 2
        assert scene.row.epoch == 1
        frame = scan_version(scene.platform, scene.version).select("infrastructure_losses").collect()
        lost: Sequence[int] = frame["infrastructure_losses"].to_list()
        conclude(scene, exits={"worker": 0}, recomputed=sum(lost), recomputed_max=IN_FLIGHT)
