"""What a worker's start costs before it can claim, with and without compiled bytecode; and the engine's import alike.

A worker that finds nothing to claim starts, opens store and table, asks once and leaves: that is everything but the
model. Without bytecode means that Python finds no compiled file and compiles what it imports, as on the first start
from an image that was built without it.

    python benchmarks/startup.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bookkeeping import prepare

from resources.settings import Settings

ENGINE_IMPORT = "from vllm.v1.engine.llm_engine import LLMEngine"


def seconds(command: list[str], environment: dict[str, str], *, compiled: bool) -> float:
    """Run a command and return its wall seconds."""
    with tempfile.TemporaryDirectory() as empty:
        nothing_compiled = {} if compiled else {"PYTHONPYCACHEPREFIX": empty}
        started = time.perf_counter()
        subprocess.run(
            command,
            env={**os.environ, **environment, **nothing_compiled},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return time.perf_counter() - started


def main() -> None:
    """Print one JSON line a command: medians in seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        version = prepare(Path(folder), 10, None)
        environment = Settings(data_dir=Path(folder) / "data").environment()
        worker = [sys.executable, "-m", "worker", "--version", version, "--worker"]
        subprocess.run([*worker, "first"], env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True)
        for name, command in (
            ("python", [sys.executable, "-c", "pass"]),
            ("worker with nothing to claim", [*worker, "late"]),
            ("import of the engine", [sys.executable, "-c", ENGINE_IMPORT]),
        ):
            taken: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(rounds):
                for compiled in (True, False):
                    taken[compiled].append(seconds(command, environment, compiled=compiled))
            compiled_s, not_compiled_s = (round(statistics.median(taken[key]), 2) for key in (True, False))
            print(json.dumps({"start": name, "compiled_s": compiled_s, "not_compiled_s": not_compiled_s}), flush=True)


if __name__ == "__main__":
    main()
