"""Processes of a scene: real workers and runs, with their logs and how they ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.integration.faults.waiting import WAIT_S

LAST_WORD = re.compile(r"INFO worker exit (\d+)$")


@dataclass
class Hand:
    """One process that a scene started, and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log_file: Path
    exit_code: int | None = field(default=None, init=False)

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self.log_file.read_text(errors="replace")

    def signal(self, signum: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(signum)

    def is_stopped(self) -> bool:
        """Whether it stands still."""
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def children(self) -> list[psutil.Process]:
        """Return the processes that it started: a run's workers."""
        return psutil.Process(self.process.pid).children()

    def kill(self) -> None:
        """`kill -9`, and wait for the end."""
        self.process.kill()
        self.wait()

    def wait(self, within_s: float = WAIT_S) -> int:
        """Wait for the end; return the exit code (-9 for a process that was killed)."""
        try:
            self.exit_code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {within_s:g} s:\n{self.log[-3_000:]}") from None
        return self.exit_code


def last_words(log_dir: Path) -> list[int | None]:
    """Return how the workers of a fleet say they ended, a number each; None: one was killed and could say nothing."""
    return [_last_word(path) for path in sorted(log_dir.glob("worker-*.log"), key=lambda path: path.stat().st_mtime)]


def _last_word(path: Path) -> int | None:
    lines = path.read_text(errors="replace").strip().splitlines()
    found = LAST_WORD.search(lines[-1]) if lines else None
    return int(found.group(1)) if found else None


def survivors(mark: str, sessions: Collection[int] = ()) -> list[psutil.Process]:
    """Return the living processes that have `mark` in their environment or belong to one of the sessions.

    Engines write their name over their environment, so the session that they were born in must tell.
    """
    return [
        process for process in psutil.process_iter() if process.pid != os.getpid() and _belongs(process, mark, sessions)
    ]


def _belongs(process: psutil.Process, mark: str, sessions: Collection[int]) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and (
            os.getsid(process.pid) in sessions or mark in process.environ().values()
        )
    except (psutil.Error, ProcessLookupError):
        return False
