"""Workers to interrupt: a registered version, and processes that work on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from bookkeeping import make_spec, write_source
from interruption_costs import Diary

from resources.flow import take_and_register
from resources.platform import Platform
from resources.settings import Settings

SEQS = 32
WINDOW = 40  # what a worker has in flight with that many sequences: 1.25 of them
EXIT_WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One registered version and how its workers are set up."""

    platform: Platform
    version: str
    journal: Path

    @classmethod
    def make(cls, folder: Path, *, records: int, shard_size: int, latency_s: float, **settings: float) -> World:
        """Register `records` in shards; a worker answers `SEQS` of them each `latency_s` seconds."""
        journal = folder / "journal"
        journal.mkdir(parents=True)
        write_source(folder / "source.parquet", records)
        faults = json.dumps({"latency_s": latency_s, "journal": str(journal)})
        platform = Platform.open(
            Settings.model_validate({"data_dir": folder / "data", "fake_faults": faults, **settings})
        )
        spec = make_spec(folder / "source.parquet", None)
        spec = replace(spec, model=replace(spec.model, max_num_seqs=SEQS), shard_size=shard_size)
        return cls(platform=platform, version=take_and_register(platform, spec).version, journal=journal)

    def read(self) -> dict[int, Diary]:
        """Return what each worker noted so far, by process id."""
        return {int(path.stem): Diary.read(path) for path in sorted(self.journal.glob("*.log"))}

    def at_work(self, pids: Iterable[int]) -> list[int]:
        """Return those of the processes that have been asked something."""
        return sorted(pid for pid in pids if (self.journal / f"{pid}.log").exists())


def own_workers() -> list[int]:
    """Return the process ids of the workers that this process has running."""
    found = []
    for child in psutil.Process().children():
        try:
            if "worker" in child.cmdline():
                found.append(child.pid)
        except psutil.Error:
            continue
    return found


class Pods:
    """Workers that nobody watches, as pods are: one that ends is replaced by a new name, and no lease is expired."""

    def __init__(self, world: World, count: int) -> None:
        self._world = world
        self._started = 0
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        for _ in range(count):
            self.add()

    @property
    def at_work(self) -> list[int]:
        """Process ids of those that have been asked something."""
        return self._world.at_work(self._running)

    def add(self) -> None:
        """Start one."""
        self._started += 1
        settings = self._world.platform.settings
        settings.log_dir.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "worker", "--version", self._world.version, "--worker", f"pod-{self._started}"]
        with (settings.log_dir / f"pod-{self._started}.log").open("wb") as log:
            pod = subprocess.Popen(
                [*command, "--parent", str(os.getpid())],
                env={**os.environ, **settings.environment()},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._running[pod.pid] = pod

    def end(self, pid: int, number: signal.Signals) -> tuple[float, float, int]:
        """Send a signal; return when (`time.monotonic`), the seconds until the process was gone, and its exit code."""
        pod = self._running.pop(pid)
        at_s = time.monotonic()
        pod.send_signal(number)
        code = pod.wait(EXIT_WAIT_S)
        return at_s, time.monotonic() - at_s, code

    def stop(self) -> None:
        """Let all of them drain and end."""
        for pod in self._running.values():
            pod.terminate()
        for pod in self._running.values():
            pod.wait(EXIT_WAIT_S)
        self._running.clear()
