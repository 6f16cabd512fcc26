"""Threads of simulated processes on one clock: one runs at a time, and every wait is a place where others go on.

A thread is a greenlet, so production code runs as it is, blocking calls included: a seam (store, table, engine, clock)
waits by `Hub.sleep`, which hands over to whoever is next in time. A killed process gets `Killed` at its next seam and
at every one after, so nothing that it does while it unwinds reaches the world.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import greenlet

_LOOK_S = 0.05


class Killed(BaseException):
    """The process is gone (kill -9). Not an `Exception`: no production code may catch and outlive it."""


class Process:
    """A simulated operating-system process: dead once, frozen (SIGSTOP) until a moment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen_until_s = 0.0
        self.threads: list[Thread] = []

    def check(self) -> None:
        """Raise `Killed` if the process is gone."""
        if not self.alive:
            raise Killed(self.name)


class Thread:
    """One thread of a process. Once it has `ended`: what it returned, or the error that ended it."""

    def __init__(self, process: Process, body: Callable[[], Any], hub: greenlet.greenlet) -> None:
        self.process = process
        self.ended = False
        self.error: BaseException | None = None
        self.result: Any = None
        self._body = body
        self._greenlet = greenlet.greenlet(self._run, parent=hub)
        process.threads.append(self)

    def go_on(self) -> None:
        """Run until its next wait or its end."""
        if not self.ended:
            self._greenlet.switch()

    def kill(self) -> None:
        """Unwind it."""
        if not self.ended and self._greenlet:
            self._greenlet.throw(Killed(self.process.name))
        if not self.ended:  # it never began
            self.ended, self.error = True, Killed(self.process.name)

    def _run(self) -> None:
        try:
            self.result = self._body()
        except BaseException as error:  # noqa: BLE001 - whoever started it looks at it
            self.error = error
        finally:
            self.ended = True


class Hub:
    """The clock and what comes next on it. `now_s` are seconds from the start of the world."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._hub = greenlet.getcurrent()
        self._running: Thread | None = None

    def at(self, moment_s: float, event: Callable[[], None]) -> None:
        """Call `event` at a moment, between threads."""
        heapq.heappush(self._queue, (max(moment_s, self.now_s), next(self._order), event))

    def start(self, process: Process, body: Callable[[], Any], after_s: float = 0.0) -> Thread:
        """Start a thread."""
        thread = Thread(process, body, self._hub)
        self.at(self.now_s + after_s, lambda: self._resume(thread))
        return thread

    def sleep(self, seconds: float) -> None:
        """Wait, in the thread that calls."""
        self.at(self.now_s + seconds, self.waker())
        self.park()

    def park(self) -> None:
        """Hand over, until somebody wakes the thread that calls."""
        thread = self._current()
        thread.process.check()  # a process that unwinds must not wait for what will never come
        self._hub.switch()
        thread.process.check()

    def waker(self) -> Callable[[], None]:
        """Return what lets the calling thread go on; call it from an event."""
        thread = self._current()
        return lambda: self._resume(thread)

    def kill(self, process: Process) -> None:
        """End a process: its threads unwind without any effect. A thread that kills its own process raises `Killed`."""
        process.alive = False
        for thread in process.threads:
            if thread is not self._running:
                self.at(self.now_s, lambda thread=thread: self._with(thread, thread.kill))  # type: ignore[misc]

    def run(self, until: Callable[[], bool], *, limit_s: float) -> bool:
        """Go on until `until` says so; False if time ran out or nothing is left to happen."""
        while not until():
            if not self._queue or self._queue[0][0] > limit_s:
                return False
            moment_s, _, event = heapq.heappop(self._queue)
            self.now_s = max(self.now_s, moment_s)
            event()
        return True

    def close(self, processes: Iterable[Process]) -> None:
        """End every thread that is left."""
        for process in processes:
            process.alive = False
            for thread in process.threads:
                self._with(thread, thread.kill)

    def _resume(self, thread: Thread) -> None:
        process = thread.process
        if process.alive and process.frozen_until_s > self.now_s:
            self.at(process.frozen_until_s, lambda: self._resume(thread))
        else:
            self._with(thread, thread.go_on)

    def _with(self, thread: Thread, action: Callable[[], None]) -> None:
        self._running = thread
        try:
            action()
        finally:
            self._running = None

    def _current(self) -> Thread:
        if self._running is None:
            raise RuntimeError("only a simulated thread can wait")
        return self._running


class HubExecutor(Executor):
    """One worker thread of a process, as `ThreadPoolExecutor(max_workers=1)`: jobs run in the order they came."""

    def __init__(self, hub: Hub, process: Process) -> None:
        self._hub = hub
        self._process = process
        self._jobs: deque[tuple[Callable[[], Any], _HubFuture]] = deque()
        self._thread: Thread | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Add a job."""
        future = _HubFuture(self._hub)
        self._jobs.append((partial(fn, *args, **kwargs), future))
        if self._thread is None or self._thread.ended:
            self._thread = self._hub.start(self._process, self._work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - the base's
        """Wait for the jobs that are left."""
        if cancel_futures:
            self._jobs.clear()
        while wait and self._thread is not None and not self._thread.ended:
            self._hub.sleep(_LOOK_S)

    def _work(self) -> None:
        while self._jobs:
            job, future = self._jobs.popleft()
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001 - handed to whoever asks for the result
                future.set_exception(error)


class _HubFuture(Future[Any]):
    """A future whose reader waits on the hub."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self._hub = hub

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the job, and return what it returned or raise what it raised."""
        if not self.done():
            wake = self._hub.waker()
            self.add_done_callback(lambda _: self._hub.at(self._hub.now_s, wake))
            while not self.done():
                self._hub.park()
        return super().result(timeout)
