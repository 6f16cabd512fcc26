"""`kill -9`: of a worker in the middle of a shard, and of the process that minds the workers."""

from __future__ import annotations

from batch_assets.domain.lease import ShardState
from tests.integration.faults.ending import conclude
from tests.integration.faults.hands import last_words
from tests.integration.faults.scene import Scene, messages
from tests.integration.faults.stacks import Stack
from tests.integration.faults.waiting import until

SLOW = {"latency_s": 0.05}  # 160 records a second at most


def test_a_worker_is_killed_in_the_middle_of_a_shard(stack: Stack) -> None:
    """A spot machine vanishes: the fleet sees its worker gone and starts another, which goes on from the last part.

    What is lost: the records in flight, and the answers that came since the last part.
    """
    with Scene(stack, messages(150)) as scene:
        run = scene.run("run", SLOW)
        scene.until_committed(60)
        (worker,) = run.children()
        worker.kill()
        assert run.wait() == 0, run.log
        assert last_words(scene.log_dir) == [None, 0]
        assert scene.row.epoch == 2
        lost = scene.journal.asked(epoch=1) - scene.rows_of(scene.parts(epoch=1))
        assert conclude(scene, exits={"run": 0}, recomputed_max=scene.loss_max) == lost


def test_the_run_itself_is_killed(stack: Stack) -> None:
    """The step's process dies by `kill -9`: its workers drain and leave, and the next run goes on where they were."""
    with Scene(stack, messages(150), shard_size=50) as scene:
        run = scene.run("run", SLOW)
        scene.until_committed(40)
        run.kill()
        until(lambda: not scene.living, "the end of the dead run's workers")
        assert last_words(scene.log_dir) == [75]
        assert ShardState.LEASED not in {row.state for row in scene.rows}
        again = scene.run("again")
        assert again.wait() == 0, again.log
        assert [line for line in again.log.splitlines() if line.startswith("done")] == ["done 0", "done 1", "done 2"]
        conclude(scene, exits={"run": -9, "again": 0}, recomputed_max=0)
