"""A look at a version is something that scripts do in a loop: it must not load what it does not need."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.scratch import ScratchProject

HEAVY = ("dagster", "polars", "pyarrow", "duckdb", "vllm", "torch", "boto3", "numpy", "pandera", "matplotlib")

PROBE = f"""
import sys
from batch_assets.cli.app import app
try:
    app(["status", "--json"])
except SystemExit as end:
    assert end.code == 0
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""


def test_status_imports_nothing_heavy(finished: ScratchProject) -> None:
    """Dagster alone takes two seconds to import, boto3 half of one; `status` on local stores needs neither."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=finished.root,
        env=finished.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr.strip() == "[]"
