"""SIGSTOP and SIGCONT: a machine that freezes, and comes back when others have gone on without it."""

from __future__ import annotations

import signal

import pytest

from batch_assets.domain.errors import LeaseLost
from batch_assets.domain.lease import Lease, claimable
from tests.integration.faults.ending import conclude
from tests.integration.faults.scene import Scene, messages
from tests.integration.faults.stacks import MOSTLY_CLUSTER, Stack
from tests.integration.faults.waiting import let_pass, until

SLOW = {"latency_s": 0.1}
STOPPING = ("-m", "tests.integration.faults.stopping")


def test_a_worker_oversleeps_its_lease(stack: Stack) -> None:
    """A frozen machine thaws after a replacement has finished its shard: it notices, throws its work away, and leaves.

    The replacement had to wait for the lease (3 s) and nothing else.
    """
    with Scene(stack, messages(150)) as scene:
        sleeper = scene.worker("sleeper", SLOW, lease_ttl_s=3, heartbeat_interval_s=1)
        scene.until_committed(40)
        scene.freeze(sleeper)
        until(lambda: claimable(scene.row, cancelled=False, now_s=scene.platform.clock.wall_s()), "the lease's end")
        before = scene.parts(epoch=1)
        assert scene.worker("replacement").wait() == 0
        done = scene.row
        assert (done.worker, done.epoch) == ("replacement", 2)
        sleeper.signal(signal.SIGCONT)
        assert sleeper.wait() == 0
        assert "lost, its unfinished work is thrown away" in sleeper.log
        assert scene.row == done
        stood = scene.rows_of(before)
        assert scene.epochs_of_results() == {1: stood, 2: 150 - stood}
        conclude(scene, exits={"sleeper": 0, "replacement": 0}, recomputed_max=scene.loss_max)


@pytest.mark.parametrize("place", ["part", "completion"])
def test_what_comes_late_is_refused(stack: Stack, place: str) -> None:
    """The worst moments to freeze: just before a part is put, and just before the shard is called done.

    The process stops itself there; a fleet takes it for dead, and its replacement finishes the shard. Back again, it
    puts its part, which nobody sees, or completes the shard, which the shard table refuses.
    """
    with Scene(stack, messages(60)) as scene:
        sleeper = scene.worker("sleeper", {"latency_s": 0.02}, program=(*STOPPING, place))
        until(sleeper.is_stopped, "the worker to stop itself")
        before, frozen = scene.parts(epoch=1), scene.row
        assert scene.platform.table.expire(scene.version, "sleeper") == 1
        assert scene.worker("replacement").wait() == 0
        done = scene.row
        assert done.worker == "replacement"
        sleeper.signal(signal.SIGCONT)
        assert sleeper.wait() == 0
        late = [key for key in scene.parts(epoch=1) if key not in before]
        assert len(late) == {"part": 1, "completion": 0}[place]
        assert "lost" in sleeper.log
        lease = Lease(version=scene.version, shard=0, worker="sleeper", epoch=1, expires_at_s=frozen.expires_at_s or 0)
        assert done.outcome is not None
        with pytest.raises(LeaseLost, match="epoch 2"):
            scene.platform.table.complete(lease, done.outcome)
        assert scene.row == done
        stood = scene.rows_of(before)
        assert scene.epochs_of_results() == ({1: stood, 2: 60 - stood} if stood < 60 else {1: 60})
        conclude(scene, exits={"sleeper": 0, "replacement": 0}, recomputed_max=scene.loss_max)


@MOSTLY_CLUSTER
def test_a_pause_shorter_than_the_lease_costs_nothing(stack: Stack) -> None:
    """A machine stands still for three heartbeats and goes on: the lease holds, and no record is asked twice."""
    with Scene(stack, messages(60)) as scene:
        worker = scene.worker("sleeper", SLOW, lease_ttl_s=30, heartbeat_interval_s=0.5)
        scene.until_committed(20)
        scene.freeze(worker)
        let_pass(1.5)
        worker.signal(signal.SIGCONT)
        assert worker.wait() == 0
        assert scene.row.epoch == 1
        conclude(scene, exits={"sleeper": 0}, recomputed_max=0)
