"""The local store's disk is full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from batch_assets.domain.lease import ShardState, claimable
from tests.integration.faults.ending import conclude
from tests.integration.faults.scene import Scene, messages
from tests.integration.faults.stacks import Stack
from tests.integration.faults.waiting import until

PAGE = 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "batch-assets-test", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path, *, leave_bytes: int) -> Path:
    """Fill a disk with one file, but for some bytes."""
    found = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(max(0, found.f_bavail * found.f_frsize - leave_bytes) // PAGE * PAGE))
    return ballast


def test_the_stores_disk_is_full(tmp_path: Path, small_disk: Path) -> None:
    """Somebody's dump fills the disk in the middle of a shard: the worker says which disk, and ends with 1.

    Its shard is free at once. When there is room again, a new worker goes on from what stands.
    """
    stack = Stack(name="embedded", folder=tmp_path, places={"result_store": str(small_disk / "store")})
    with Scene(stack, messages(200)) as scene:
        worker = scene.worker("worker", {"latency_s": 0.05})
        scene.until_committed(40)
        ballast = fill(small_disk, leave_bytes=2 * PAGE)
        assert worker.wait() == 1
        last = worker.log.strip().splitlines()[-1]
        assert "no room to write" in last
        assert str(small_disk) in last
        assert (scene.row.state, scene.row.unclean_ends) == (ShardState.PENDING, 0)
        ballast.unlink()
        assert scene.worker("next").wait() == 0
        conclude(scene, exits={"worker": 1, "next": 0}, recomputed_max=scene.loss_max)


@pytest.mark.slow
def test_the_disk_of_everything_is_full(tmp_path: Path, small_disk: Path) -> None:
    """The embedded defaults: the shard table lies on the full disk, too, so the lease cannot even be given back.

    The worker ends with 1 and its reason all the same; the lease expires by itself.
    """
    stack = Stack(name="embedded", folder=tmp_path, places={"data_dir": small_disk / "data"})
    with Scene(stack, messages(200)) as scene:
        worker = scene.worker("worker", {"latency_s": 0.05}, lease_ttl_s=3, heartbeat_interval_s=1)
        scene.until_committed(40)
        ballast = fill(small_disk, leave_bytes=0)
        assert worker.wait(200) == 1
        ballast.unlink()
        last = worker.log.strip().splitlines()[-1]
        assert "no room" in last or "full" in last
        until(lambda: claimable(scene.row, cancelled=False, now_s=scene.platform.clock.wall_s()), "the lease's end")
        assert scene.worker("next").wait() == 0
        conclude(scene, exits={"worker": 1, "next": 0}, recomputed_max=scene.loss_max)
