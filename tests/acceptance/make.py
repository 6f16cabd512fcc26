"""Running this clone's own `make`, as a user would, with the data somewhere else."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CLI = ROOT / ".venv" / "bin" / "batch-assets"
SHARED = ROOT.parent / "shared" / "data"
TIMEOUT_S = 3000


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended; `text` is everything it said."""

    code: int
    stdout: str
    text: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.stdout)


def environment(data: Path) -> dict[str, str]:
    """Return the variables of a user who set nothing but where the data goes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BATCH_ASSETS_", "DAGSTER_"))}
    return {**kept, "BATCH_ASSETS_DATA_DIR": str(data), "COLUMNS": "200"}


def make(data: Path, *arguments: str) -> Ran:
    """Run `make ... DATA=data`."""
    return _run(["make", *arguments, f"DATA={data}"], data)


def cli(data: Path, *arguments: str) -> Ran:
    """Run `batch-assets ...` on the data of a demo."""
    return _run([str(CLI), *arguments], data)


def _run(command: list[str], data: Path) -> Ran:
    done = subprocess.run(
        command, cwd=ROOT, env=environment(data), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return Ran(done.returncode, done.stdout, done.stdout + done.stderr)
