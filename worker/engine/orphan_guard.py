"""A vLLM plugin: engine processes that die with their parent and do not hear its signals.

vLLM's engine core and worker are children of ours. Killing the parent leaves them running with the model in memory,
and a SIGTERM to the process group ends them before the parent could drain. Both were seen on vLLM 0.32. This plugin
is loaded in each of them (entry point group `vllm.general_plugins`): it leaves the group and asks the kernel for a
SIGKILL when the parent dies. The kernel ties that to the thread that spawned them: build the engine in the main one.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(signum: int) -> None:
    """Ask Linux to send `signum` to this process when the thread that started it ends; elsewhere do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)


def install() -> None:
    """Guard this process if it is one that vLLM spawned; the front end is left alone."""
    if multiprocessing.parent_process() is None:
        return
    os.setpgrp()
    die_with_parent(signal.SIGKILL)
