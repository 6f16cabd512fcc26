"""The steps of the flow over a platform: snapshot and register, drive the shards, check, publish, read."""

from resources.flow.compact import compact, compact_past_limit
from resources.flow.delta import NoDelta, keep_contents, make_delta
from resources.flow.drive import drive
from resources.flow.forget import forget
from resources.flow.gc import gc, retention_policy
from resources.flow.publish import dead_letters, open_duck, publish, run_checks, scan_version
from resources.flow.register import Registration, register, take_and_register
from resources.snapshots.delta_manifest import Delta, read_delta, source_of

__all__ = [
    "Delta",
    "NoDelta",
    "Registration",
    "compact",
    "compact_past_limit",
    "dead_letters",
    "drive",
    "forget",
    "gc",
    "keep_contents",
    "make_delta",
    "open_duck",
    "publish",
    "read_delta",
    "register",
    "retention_policy",
    "run_checks",
    "scan_version",
    "source_of",
    "take_and_register",
]
