"""Dagster's own services for a scratch project, and a real Chromium in front of them."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import requests
from playwright.sync_api import Browser, sync_playwright

from resources.clock import SystemClock
from tests.cli.scratch import ROOT, ScratchProject

START_TIMEOUT_S = 180
POLL_S = 0.2
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def dagster(project: ScratchProject, **settings: str) -> Iterator[str]:
    """Run `dagster dev` in the project's folder, as `make ui` does; yield the address of the pages.

    Its webserver and daemon share one code server, so that both see a reload at once.
    """
    home = project.root / "dagster_home"
    home.mkdir(exist_ok=True)
    shutil.copy(ROOT / "dagster.yaml", home)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = project.environment(DAGSTER_HOME=str(home), BATCH_ASSETS_WEBSERVER_URL=url, **settings)
    command = [str(Path(sys.executable).parent / "dagster"), "dev", "-w", "workspace.yaml", "-p", str(port)]
    log = project.root / "dagster_dev.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            cwd=project.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_served(url, process, log)
        yield url
    finally:
        _stop_tree(process.pid)
        process.wait()


def _wait_until_served(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + START_TIMEOUT_S
    while clock.monotonic_s() < deadline_s and process.poll() is None:
        with suppress(requests.RequestException):
            requests.get(f"{url}/server_info", timeout=5).raise_for_status()
            return
        clock.sleep(POLL_S)
    raise AssertionError(f"the webserver does not answer: {log.read_text()[-2000:]}")


def _stop_tree(pid: int) -> None:
    """Stop a process and all it started, by pid: `dagster dev` and its children have outlived a SIGTERM before."""
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        tree = [*top.children(recursive=True), top]
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(tree, timeout=10)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the distribution's Chromium without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
