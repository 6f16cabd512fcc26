"""Real worker processes on the embedded defaults: started, watched, killed and stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from batch_assets.domain.errors import Permanent
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.progress import Progress
from batch_assets.domain.spec import ModelSpec
from resources.clock import SystemClock
from resources.flow import drive, publish, run_checks, take_and_register
from resources.models.digest import manifest_digest
from resources.platform import Platform
from resources.settings import Settings
from tests.worker.harness import make_spec

WAIT_S = 60.0


def make_platform(folder: Path, **changes: Any) -> Platform:
    """Open a platform on the embedded defaults under `folder`."""
    values = {"poll_interval_s": 0.05, "part_interval_s": 0.2, "part_records_max": 20, **changes}
    return Platform.open(Settings(data_dir=folder / "data", **values))


def start_worker(platform: Platform, version: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a worker process of our own."""
    return subprocess.Popen(
        [sys.executable, "-m", "worker", "--version", version, "--worker", "alone", *arguments],
        env={**os.environ, **platform.settings.environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def own_workers() -> list[psutil.Process]:
    """Return the workers that this process has running; session-wide servers of other tests are none."""
    return [child for child in psutil.Process().children() if "worker" in child.cmdline()]


def until(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds; a test that waits too long fails."""
    clock = SystemClock()
    end_s = clock.monotonic_s() + WAIT_S
    while not condition():
        assert clock.monotonic_s() < end_s, "the condition did not come true"
        clock.sleep(0.02)


def test_two_workers_finish_a_version_and_it_is_published(tmp_path: Path) -> None:
    """The main line on one machine with real processes: every shard is reported once, checks pass, `current` moves."""
    platform = make_platform(tmp_path, workers=2)
    version = take_and_register(platform, make_spec(tmp_path, [f"m {n}" for n in range(200)])).version
    reported: list[ShardRow] = []
    lines: list[Progress] = []
    drive(platform, version, None, on_done=reported.append, on_tick=lines.append)
    assert sorted(row.shard for row in reported) == [0, 1, 2, 3]
    assert lines[-1].done == lines[-1].total == 200
    assert [check.passed for check in run_checks(platform, version)] == [True, True]
    assert publish(platform, version, reason="test").release.rows == 200
    assert not own_workers()


def test_a_second_drive_recomputes_nothing_and_reports_again(tmp_path: Path) -> None:
    """Whoever lost the first run's reports gets them, and no worker is started for it (no GPU hour twice)."""
    platform = make_platform(tmp_path)
    version = take_and_register(platform, make_spec(tmp_path, [f"m {n}" for n in range(60)])).version
    first = drive(platform, version, None, on_done=lambda _: None, on_tick=lambda _: None)
    logs = list(platform.settings.log_dir.iterdir())
    reported: list[ShardRow] = []
    assert drive(platform, version, None, on_done=reported.append, on_tick=lambda _: None) == first
    assert sorted(row.shard for row in reported) == [0, 1]
    assert list(platform.settings.log_dir.iterdir()) == logs


def test_a_range_of_shards_leaves_the_others_alone(tmp_path: Path) -> None:
    """Materializing some partitions works on exactly those."""
    platform = make_platform(tmp_path)
    version = take_and_register(platform, make_spec(tmp_path, [f"m {n}" for n in range(200)])).version
    drive(platform, version, [1, 2], on_done=lambda _: None, on_tick=lambda _: None)
    states = [row.state for row in platform.table.shards(version)]
    assert states == [ShardState.PENDING, ShardState.DONE, ShardState.DONE, ShardState.PENDING]


def test_a_killed_worker_is_replaced_and_its_committed_work_kept(tmp_path: Path) -> None:
    """`kill -9` of a worker in the middle of a shard: the fleet starts another; every record has one row."""
    platform = make_platform(
        tmp_path, lease_ttl_s=3, heartbeat_interval_s=1, fake_faults='{"latency_s": 0.05}', part_interval_s=0.1
    )
    version = take_and_register(platform, make_spec(tmp_path, [f"m {n}" for n in range(300)], shard_size=300)).version
    killed: list[int] = []

    def kill_once(progress: Progress) -> None:
        if progress.done >= 60 and not killed:
            for child in own_workers():
                killed.append(child.pid)
                child.kill()

    (row,) = drive(platform, version, None, on_done=lambda _: None, on_tick=kill_once)
    assert killed
    assert row.state is ShardState.DONE
    assert row.epoch == 2
    assert row.results == 300
    assert all(check.passed for check in run_checks(platform, version))


def test_sigterm_drains_commits_and_releases(tmp_path: Path) -> None:
    """A notice ends a worker with 75 within its budget; the shard is claimable at once, nothing committed is lost."""
    platform = make_platform(tmp_path, fake_faults='{"latency_s": 0.05}')
    version = take_and_register(
        platform, make_spec(tmp_path, [f"m {n}" for n in range(2_000)], shard_size=2_000)
    ).version
    worker = start_worker(platform, version)
    until(lambda: platform.table.shards(version)[0].results > 0)
    worker.send_signal(signal.SIGTERM)
    output, _ = worker.communicate(timeout=WAIT_S)
    assert worker.returncode == 75, output.decode()
    (row,) = platform.table.shards(version)
    assert row.state is ShardState.PENDING
    assert row.results > 0


def test_workers_die_with_the_process_that_started_them(tmp_path: Path) -> None:
    """`kill -9` of the run's step leaves no worker: the kernel tells it that its parent is gone."""
    platform = make_platform(tmp_path, fake_faults='{"latency_s": 0.05}')
    version = take_and_register(
        platform, make_spec(tmp_path, [f"m {n}" for n in range(2_000)], shard_size=2_000)
    ).version
    script = (
        "from resources.platform import Platform; from resources.flow import drive\n"
        f"drive(Platform.open(), {version!r}, None, on_done=lambda _: None, on_tick=lambda _: None)"
    )
    step = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, **platform.settings.environment()})
    until(lambda: platform.table.shards(version)[0].results > 0)
    workers = psutil.Process(step.pid).children(recursive=True)
    assert workers
    step.kill()
    step.wait()
    _, alive = psutil.wait_procs(workers, timeout=WAIT_S)
    assert not alive
    assert platform.table.shards(version)[0].state is ShardState.PENDING


def test_a_changed_byte_of_the_model_ends_with_42_and_names_the_file(tmp_path: Path, small_model: Path) -> None:
    """A model file that is not the pinned one is refused before anything is loaded; the fleet is not restarted."""
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copytree(small_model, folder, dirs_exist_ok=True, copy_function=os.link)
    platform = make_platform(tmp_path)
    spec = make_spec(tmp_path, ["one"])
    model = ModelSpec(name="m", path=str(folder), digest=manifest_digest(folder), max_model_len=8_000)
    version = take_and_register(platform, replace(spec, model=model)).version
    config = folder / "config.json"
    changed = config.read_bytes().replace(b"0", b"1", 1)
    config.unlink()
    config.write_bytes(changed)
    worker = start_worker(platform, version)
    output, _ = worker.communicate(timeout=WAIT_S)
    assert worker.returncode == 42, output.decode()
    assert "config.json" in output.decode().splitlines()[-1]
    assert platform.table.shards(version)[0].state is ShardState.PENDING


def test_a_worker_that_cannot_work_stops_the_fleet_with_the_reason(tmp_path: Path) -> None:
    """A source that changed since the snapshot is permanent: the run fails at once and names the file."""
    platform = make_platform(tmp_path)
    spec = make_spec(tmp_path, [f"m {n}" for n in range(20)])
    version = take_and_register(platform, spec).version
    Path(spec.input.uri).write_bytes(Path(spec.input.uri).read_bytes()[:-1] + b"X")
    with pytest.raises(Permanent, match=r"source\.parquet"):
        drive(platform, version, None, on_done=lambda _: None, on_tick=lambda _: None)
