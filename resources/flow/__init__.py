"""The steps of the flow over a platform: snapshot and register, drive the shards, check, publish, read."""

from resources.flow.compact import compact, compact_past_limit
from resources.flow.drive import drive
from resources.flow.forget import forget
from resources.flow.gc import gc, retention_policy
from resources.flow.publish import dead_letters, open_duck, publish, run_checks, scan_version
from resources.flow.register import Registration, register, take_and_register

__all__ = [
    "Registration",
    "compact",
    "compact_past_limit",
    "dead_letters",
    "drive",
    "forget",
    "gc",
    "open_duck",
    "publish",
    "register",
    "retention_policy",
    "run_checks",
    "scan_version",
    "take_and_register",
]
