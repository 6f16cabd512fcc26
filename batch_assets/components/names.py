"""Names of assets and jobs, in one place: the command line, the sensor and the tests use the same ones."""

from __future__ import annotations

import dagster as dg

SHARDS_TAG = "batch_assets/shards"  # shard numbers as `0-3,7`, where a run is not of a whole range
LOCATION = "batch_assets"  # as in workspace.yaml and dagster_cloud.yaml


def snapshot_key(job: str) -> dg.AssetKey:
    """Key of a job's snapshot asset."""
    return dg.AssetKey([job, "snapshot"])


def version_key(job: str, version: str) -> dg.AssetKey:
    """Key of a version's asset: partitions are its shards."""
    return dg.AssetKey([job, version])


def dead_letters_key(job: str) -> dg.AssetKey:
    """Key of a job's dead letters."""
    return dg.AssetKey([job, "dead_letters"])


def current_key(job: str) -> dg.AssetKey:
    """Key of what readers read."""
    return dg.AssetKey([job, "current"])


def run_job_name(job: str) -> str:
    """Name of the Dagster job that answers the candidate's records."""
    return f"{job}_run"


def publish_job_name(job: str) -> str:
    """Name of the Dagster job that checks the candidate and publishes it."""
    return f"{job}_publish"


def gc_job_name(job: str) -> str:
    """Name of the Dagster job that says or deletes what retention gives up."""
    return f"{job}_gc"
