"""Two `make demo` at once in one clone: the second waits for the first, then finds that nothing is left to do."""

from __future__ import annotations

import fcntl
import subprocess
import sys

from tests.cli.scratch import TIMEOUT_S, ScratchProject


def test_the_second_run_waits_for_the_first(finished: ScratchProject) -> None:
    """Without waiting, two fleets would load two models onto the same cores."""
    version = finished.cli("status", "--json").json["version"]
    with (finished.data / f"run-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(
            [sys.executable, "-m", "batch_assets.cli.app", "run"],
            cwd=finished.root,
            env=finished.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert "waiting for its end" in process.stderr.readline()
            fcntl.flock(lock, fcntl.LOCK_UN)
            stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, stderr
    assert "Nothing to compute" in stdout
