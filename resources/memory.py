"""How much memory this process holds."""

from __future__ import annotations

import os
from pathlib import Path


def resident_mb() -> float:
    """Return this process's resident memory in MB (Linux); 0 where the kernel does not say."""
    statm = Path("/proc/self/statm")
    if not statm.is_file():
        return 0.0
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
