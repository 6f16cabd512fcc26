"""`make ui` serves the instance of the data folder that it is given, with this clone's jobs loaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import requests

from tests.acceptance.make import ROOT, environment
from tests.ui.services import _stop_tree, _wait_until_served, free_port

pytestmark = pytest.mark.slow

QUERY = "{ instance { info } workspaceOrError { ... on Workspace { locationEntries { name loadStatus } } } }"


def test_make_ui_serves_the_instance(tmp_path: Path) -> None:
    """The command that `make demo` prints opens the very instance that the demo wrote to, not one that is empty."""
    port = free_port()
    log = tmp_path / "ui.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["make", "ui", f"PORT={port}", f"DATA={tmp_path / 'data'}"],
            cwd=ROOT,
            env=environment(tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_served(url, process, log)
        answer = requests.post(f"{url}/graphql", json={"query": QUERY}, timeout=120)
        data = answer.json()["data"]
    finally:
        _stop_tree(process.pid)
        process.wait()
    assert str(tmp_path / "data" / "dagster_home") in data["instance"]["info"]
    assert data["workspaceOrError"]["locationEntries"] == [{"name": "batch_assets", "loadStatus": "LOADED"}]
