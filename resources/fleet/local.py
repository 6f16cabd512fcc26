"""Local worker processes: started, watched, replaced and stopped by whoever runs the version.

A worker that ends with 0 found no work; 75 was interrupted; 42 is permanent and stops the fleet; anything else is a
death, and the slot gets a new worker after a pause that grows, as long as records move.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from batch_assets.domain.errors import BatchError, Permanent
from batch_assets.domain.plan import format_shards
from batch_assets.domain.ports import Clock

EXIT_DONE, EXIT_PERMANENT, EXIT_INTERRUPTED = 0, 42, 75
BACKOFF_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
LOG_TAIL_BYTES = 2_000


@dataclass(slots=True)
class _Slot:
    """One place in the fleet: a running worker, or the time at which its successor starts."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    worker: str = ""
    log: Path | None = None
    starts: int = 0
    next_start_s: float = 0.0
    finished: bool = False
    exits: list[int] = field(default_factory=list)


class LocalFleet:
    """`workers` slots of `python -m worker` for one version; call `tend` often, `stop` at the end.

    Args:
        version: job version to work on.
        shards: shard numbers to claim, or None for all.
        workers: slots.
        log_dir: folder for one log file a worker.
        clock: for back-off and for the stop budget.
        environment: variables beside this process's own: the settings that the workers must share.
        deaths_max: deaths of one slot in a row, without an answered record in between, before the fleet gives up.
        on_end: called with the name of a worker whose process has ended, however it ended.
    """

    def __init__(
        self,
        *,
        version: str,
        shards: Sequence[int] | None,
        workers: int,
        log_dir: Path,
        clock: Clock,
        environment: Mapping[str, str],
        deaths_max: int,
        on_end: Callable[[str], object],
    ) -> None:
        self._version = version
        self._shards = shards
        self._log_dir = log_dir
        self._clock = clock
        self._environment = environment
        self._deaths_max = deaths_max
        self._on_end = on_end
        self._progress_seen = -1
        self._slots = [_Slot(number) for number in range(workers)]

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that run now."""
        return [slot.process.pid for slot in self._slots if slot.process is not None]

    @property
    def has_idle(self) -> bool:
        """Whether a worker ended because there was nothing left to claim."""
        return any(slot.finished for slot in self._slots)

    @property
    def logs(self) -> list[Path]:
        """The newest log file of each slot."""
        return [slot.log for slot in self._slots if slot.log is not None]

    def tend(self, progress: int) -> None:
        """Start what should run, note what ended. `progress` is a number that grows with each answered record.

        Dead letters are no progress: where every worker dies, records must not be given up one after another.

        Raises:
            Permanent: a worker ended with 42, or a slot died too often while nothing moved; the message has the end
                of its log.
        """
        if progress > self._progress_seen:
            self._progress_seen = progress
            for slot in self._slots:
                slot.exits.clear()
        now = self._clock.monotonic_s()
        for slot in self._slots:
            if slot.process is not None and (code := slot.process.poll()) is not None:
                self._ended(slot, code, now)
            if slot.process is None and not slot.finished and now >= slot.next_start_s:
                self._start(slot)

    def wake(self) -> None:
        """Let idle slots start again: a shard became claimable after its worker had found none."""
        for slot in self._slots:
            slot.finished = False

    def stop(self, timeout_s: float) -> None:
        """Tell every worker to drain (SIGTERM), wait at most `timeout_s`, then kill what is left."""
        running = [slot for slot in self._slots if slot.process is not None]
        for slot in running:
            if slot.process is not None and slot.process.poll() is None:
                slot.process.send_signal(signal.SIGTERM)
        deadline = self._clock.monotonic_s() + timeout_s
        for slot in running:
            if slot.process is None:
                continue
            try:
                slot.process.wait(timeout=max(0.0, deadline - self._clock.monotonic_s()))
            except subprocess.TimeoutExpired:
                slot.process.kill()
                slot.process.wait()
            slot.process = None
            with contextlib.suppress(BatchError):  # its leases expire by themselves
                self._on_end(slot.worker)

    def _start(self, slot: _Slot) -> None:
        name = f"{os.getpid()}-{slot.number}-{slot.starts}"
        slot.worker = f"local-{name}"
        self._log_dir.mkdir(parents=True, exist_ok=True)
        slot.log = self._log_dir / f"worker-{self._version}-{name}.log"
        command = [sys.executable, "-m", "worker", "--version", self._version, "--worker", slot.worker]
        if self._shards is not None:
            command += ["--shards", format_shards(self._shards)]
        # The parent's pid goes along so that a worker whose parent died before it could ask the kernel notices.
        command += ["--parent", str(os.getpid())]
        log: IO[bytes]
        with slot.log.open("wb") as log:
            # A session of its own: a signal to the run's process group must not reach a worker that we drain ourselves.
            slot.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self._environment, **self._cores(slot)},
            )
        slot.starts += 1

    def _cores(self, slot: _Slot) -> dict[str, str]:
        """Share the cores out when several workers run a model on a CPU: threads that spin on one core starve both."""
        cores = sorted(os.sched_getaffinity(0))
        workers = len(self._slots)
        if workers == 1 or len(cores) < workers or "VLLM_CPU_OMP_THREADS_BIND" in os.environ:
            return {}
        return {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores[slot.number :: workers]))}

    def _ended(self, slot: _Slot, code: int, now_s: float) -> None:
        slot.process = None
        self._on_end(slot.worker)
        if code == EXIT_DONE:
            slot.finished = True
            return
        if code == EXIT_PERMANENT:
            raise Permanent(f"a worker stopped for good: {self._tail(slot)}")
        slot.exits.append(code)
        if len(slot.exits) > self._deaths_max:
            raise Permanent(
                f"worker slot {slot.number} died {len(slot.exits)} times in a row without answering a record "
                f"(exits {slot.exits}): {self._tail(slot)}"
            )
        slot.next_start_s = now_s + BACKOFF_S[min(len(slot.exits), len(BACKOFF_S)) - 1]

    def _tail(self, slot: _Slot) -> str:
        if slot.log is None:
            return "no log"
        data = slot.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return f"{data.strip().splitlines()[-1] if data.strip() else 'nothing was logged'} (log: {slot.log})"
