"""`kill -9` of a real Dagster run's step, under `batch-assets run`."""

from __future__ import annotations

import psutil
import pytest

from tests.cli.scratch import ScratchProject
from tests.integration.faults.ending import conclude
from tests.integration.faults.hands import last_words
from tests.integration.faults.scene import Scene, messages
from tests.integration.faults.stacks import Stack
from tests.integration.faults.waiting import until

RECORDS = 160
RUN = ("-m", "batch_assets.cli.app", "run")


def the_step(scene: Scene) -> psutil.Process:
    """Return the process that minds the workers: the one in which Dagster runs the step."""
    (worker,) = [process for process in scene.living if "worker" in process.cmdline()]
    parent = worker.parent()
    assert parent is not None
    return parent


@pytest.mark.slow
def test_the_step_of_a_dagster_run_is_killed(stack: Stack) -> None:
    """The machine kills the run's process for its memory: no worker survives it, and the command says that it failed.

    The same command once more goes on where the first one was, and publishes.
    """
    project = ScratchProject(stack.folder)
    defs = project.job / "defs.yaml"
    defs.write_text(
        defs.read_text()
        .replace("  engine: fake", "  engine: fake\n    max_num_seqs: 8")
        .replace("shard_size: 10", "shard_size: 80")
    )
    texts = messages(RECORDS)
    project.write_records(
        [
            {"record_id": f"r{number:05d}", "text": text, "lang": "en", "access": ["support"]}
            for number, text in enumerate(texts)
        ]
    )
    registered = project.cli("register", "--json", **stack.settings().environment())
    assert registered.code == 0, registered.stderr
    with Scene(stack, texts, registered=("tickets", registered.json["version"])) as scene:
        slow = project.environment(**scene.settings({"latency_s": 0.2}).environment())
        first = scene.start("first", [*RUN, scene.version], slow, folder=project.root)
        scene.until_committed(20)
        step = the_step(scene)
        assert step.pid != first.process.pid
        step.kill()
        assert first.wait() == 1, first.log
        assert "Traceback" not in first.log
        until(lambda: not scene.living, "the end of the dead run's workers")
        assert last_words(scene.log_dir) == [75]
        again = scene.start(
            "again", [*RUN, scene.version], project.environment(**scene.settings().environment()), folder=project.root
        )
        assert again.wait() == 0, again.log
        assert "release 1 reads this version" in again.log
        conclude(scene, exits={"first": 1, "again": 0}, recomputed_max=0)
