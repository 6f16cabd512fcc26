"""SIGTERM, a cancel, and a lease that somebody else took: workers that must leave, and how."""

from __future__ import annotations

import signal
import subprocess
import sys

from batch_assets.domain.lease import ShardState
from resources.flow import scan_version
from tests.integration.faults.ending import conclude
from tests.integration.faults.scene import ROOT, Scene, messages
from tests.integration.faults.stacks import MOSTLY_CLUSTER, MOSTLY_EMBEDDED, Stack
from tests.integration.faults.waiting import CLOCK, until

SLOW = {"latency_s": 0.1}


def test_sigterm_with_records_in_flight(stack: Stack) -> None:
    """A node is drained: the worker lets what is in flight finish, commits, and gives its shard back within the budget.

    The next worker claims the shard at once, and asks nothing again.
    """
    with Scene(stack, messages(100), drain_s=5) as scene:
        first = scene.worker("first", SLOW)
        scene.until_committed(20)
        first.signal(signal.SIGTERM)
        told_s = CLOCK.monotonic_s()
        assert first.wait() == 75, first.log
        assert CLOCK.monotonic_s() - told_s < 5
        assert scene.journal.asked() == scene.journal.answered()
        assert (scene.row.state, scene.row.unclean_ends) == (ShardState.PENDING, 0)
        assert scene.row.results == scene.journal.answered()
        assert scene.worker("second").wait() == 0
        conclude(scene, exits={"first": 75, "second": 0}, recomputed_max=0)


@MOSTLY_CLUSTER
def test_a_lease_is_lost_while_the_worker_works(stack: Stack) -> None:
    """Somebody else holds the shard now: the worker aborts its requests at the next renewal, and asks no more of it."""
    with Scene(stack, messages(200)) as scene:
        loser = scene.worker("loser", SLOW)
        scene.until_committed(20)
        assert scene.platform.table.expire(scene.version, "loser") == 1
        taken = scene.platform.table.claim(scene.version, "winner", ttl_s=600)
        assert taken is not None
        assert loser.wait() == 0
        assert "shard 00000 lost" in loser.log
        assert scene.journal.asked() < 120  # it would have gone on to 200
        scene.platform.table.release(taken, results=scene.row.results, dead_letters=0)
        assert scene.worker("next").wait() == 0
        conclude(scene, exits={"loser": 0, "next": 0}, recomputed_max=scene.loss_max)


@MOSTLY_EMBEDDED
def test_a_version_is_cancelled_and_taken_up_again(stack: Stack) -> None:
    """Somebody sees that the prompt is wrong: `cancel` ends the work at the next renewal; what stands can be read.

    Taken up again after all, the version goes on from there.
    """
    with Scene(stack, messages(600), shard_size=300) as scene:
        worker = scene.worker("first", SLOW)
        scene.until_committed(20)
        command = [sys.executable, "-m", "batch_assets.cli.app", "cancel", scene.version]
        subprocess.run(command, env=scene.environment(), cwd=ROOT, check=True, capture_output=True)
        assert worker.wait() == 0
        assert {row.state for row in scene.rows} == {ShardState.CANCELLED}
        stands = scan_version(scene.platform, scene.version, partial=True).collect()
        assert 20 <= stands.height == scene.committed < 600
        assert scene.platform.table.claim(scene.version, "eager", ttl_s=600) is None
        scene.platform.table.resume(scene.version)
        assert scene.worker("second").wait() == 0
        conclude(scene, exits={"first": 0, "second": 0}, recomputed_max=scene.window)


@MOSTLY_CLUSTER
def test_two_runs_of_one_version_at_once(stack: Stack) -> None:
    """Two people start the same version on two machines: both runs end well, and no record is asked twice."""
    with Scene(stack, messages(160), shard_size=20) as scene:
        runs = [scene.run(name, {"latency_s": 0.1}) for name in ("mine", "yours")]
        until(lambda: all(run.wait() == 0 for run in runs), "both runs")
        assert len({row.worker for row in scene.rows}) == 2
        for run in runs:
            assert sorted(run.log.split()[1::2], key=int) == [str(row.shard) for row in scene.rows]
        conclude(scene, exits={"mine": 0, "yours": 0}, recomputed_max=0)
