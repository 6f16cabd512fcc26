"""The code location: every job declared below `defs/`, with the adapters that this deployment's settings name."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg

from resources.platform import Platform


@dg.resource(description="Result store, shard table and clock, opened when a step starts, never at load.")
def platform(_: dg.InitResourceContext) -> Platform:
    """Open the adapters that the environment names."""
    return Platform.open()


@dg.definitions
def defs() -> dg.Definitions:
    """Load the declared jobs; one that is wrong fails the location, with its file and line.

    The in-process executor, because the work is done by worker processes that a step starts: one more process for
    each step would only add seconds.
    """
    # Dagster's own beta parameter, which its own code passes whenever a location has checks that can be run one by one.
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*`execution_type`")
    declared = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(
        declared, dg.Definitions(resources={"platform": platform}, executor=dg.in_process_executor)
    )
