"""Starts real Dagster runs from the command line: the UI shows them, and can end them, like its own.

A `Launcher` loads the code location of workspace.yaml in a code server of its own, with the definitions as they are
now, and starts runs there at once: an operator's own run does not wait in the queue, and needs no daemon.
Dagster's command line does the same for whole jobs (`dagster job launch`); a version's asset needs a selection, so the
calls below are those of dagster._cli.job, which a test holds against the pinned version.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import dagster as dg
from dagster._core.definitions.selector import JobSubsetSelector
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget

from batch_assets.components.names import LOCATION, SHARDS_TAG, current_key, dead_letters_key, snapshot_key, version_key
from batch_assets.dagster_home import ensure_dagster_home, project_folder
from batch_assets.domain.errors import InvalidSpec, UnknownVersion
from batch_assets.domain.plan import format_shards, shard_key
from batch_assets.run_progress import ProgressLines, RunOutcome, wait_for_run
from resources.platform import Platform

__all__ = ["Launcher", "RunOutcome", "launch_publish", "launch_run", "launch_snapshot"]

REPOSITORY = "__repository__"
IMPLICIT_JOB = "__ASSET_JOB"
CHECK_NAMES = ("coverage", "schema")
Line = Callable[[str], None]


class Launcher:
    """A code server and the instance that its runs belong to; use it as a context manager.

    Args:
        platform: adapters of this process; the code server is given the same settings.
        pinned: versions that must be assets here, however old they are.
    """

    def __init__(self, platform: Platform, *, pinned: Sequence[str] = ()) -> None:
        self._platform = platform
        self._pinned = pinned
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the code server and load the definitions."""
        settings = self._platform.settings
        ensure_dagster_home(settings)
        os.environ.update(settings.environment())
        os.environ["BATCH_ASSETS_PINNED_VERSIONS"] = ",".join(self._pinned)
        logging.getLogger("dagster").setLevel(logging.WARNING)
        self._instance = self._stack.enter_context(dg.DagsterInstance.get())
        target = WorkspaceFileTarget(paths=[str(project_folder() / "workspace.yaml")])
        self._workspace = self._stack.enter_context(
            WorkspaceProcessContext(self._instance, target, version=dg.__version__, code_server_log_level="WARNING")
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the code server."""
        self._stack.close()

    def snapshot(self, job: str) -> RunOutcome:
        """Materialize a job's snapshot: take it, register and plan the version."""
        run_id = self._launch(assets=[snapshot_key(job)])
        return wait_for_run(self._instance, run_id, self._platform, _nothing)

    def run(self, job: str, version: str, shards: Collection[int] | None, *, on_line: Line) -> RunOutcome:
        """Materialize shards of a version (None: all) and say the progress meanwhile.

        Raises:
            UnknownVersion: there is no such shard.
        """
        keys = [shard_key(row.shard) for row in self._platform.table.shards(version)]
        wanted = keys if shards is None else sorted(shard_key(shard) for shard in shards)
        if not wanted or not set(wanted) <= set(keys):
            raise UnknownVersion(f"{version} has shards 0 to {len(keys) - 1}")
        tags = {"dagster/asset_partition_range_start": wanted[0], "dagster/asset_partition_range_end": wanted[-1]}
        if shards is not None:
            tags[SHARDS_TAG] = format_shards(list(shards))
        run_id = self._launch(assets=[version_key(job, version)], tags=tags)
        lines = ProgressLines(self._platform, version, shards, on_line)
        return wait_for_run(self._instance, run_id, self._platform, lines)

    def publish(self, job: str, version: str, *, on_line: Line) -> RunOutcome:
        """Run a version's checks and, if they pass, materialize `current` from it."""
        key = version_key(job, version)
        assets = [current_key(job)]
        if version == self._candidate(job):
            assets.append(dead_letters_key(job))
        config = {"ops": {current_key(job).to_python_identifier(): {"config": {"version": version}}}}
        checks = [dg.AssetCheckKey(key, name) for name in CHECK_NAMES]
        run_id = self._launch(assets=assets, checks=checks, run_config=config)
        on_line(f"checking {version} in run {run_id}")
        return wait_for_run(self._instance, run_id, self._platform, _nothing)

    def _candidate(self, job: str) -> str:
        return self._platform.registry.versions(job)[-1][1]

    def _launch(
        self,
        *,
        assets: Sequence[dg.AssetKey],
        checks: Sequence[dg.AssetCheckKey] = (),
        tags: Mapping[str, str] | None = None,
        run_config: Mapping[str, object] | None = None,
    ) -> str:
        request = self._workspace.create_request_context()
        entry = request.get_location_entry(LOCATION)
        if entry is not None and entry.load_error is not None:
            cause = entry.load_error.cause or entry.load_error
            raise InvalidSpec(f"the code location cannot be loaded: {cause.message.strip()}")
        location = request.get_code_location(LOCATION)
        selector = JobSubsetSelector(LOCATION, REPOSITORY, IMPLICIT_JOB, None, assets, checks)
        job = location.get_job(selector)
        # The console is the operator's; Dagster's own words are in the event log.
        config = {**(run_config or {}), "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        plan = location.get_execution_plan(job, config, None, None, instance=self._instance).execution_plan_snapshot
        run = self._instance.create_run(
            job_name=job.name,
            run_id=None,
            run_config=config,
            status=dg.DagsterRunStatus.NOT_STARTED,
            tags={**job.tags, **(tags or {}), "batch_assets/launched_by": "batch-assets"},
            root_run_id=None,
            parent_run_id=None,
            step_keys_to_execute=plan.step_keys_to_execute,
            execution_plan_snapshot=plan,
            job_snapshot=job.job_snapshot,
            parent_job_snapshot=job.parent_job_snapshot,
            asset_selection=frozenset(assets),
            asset_check_selection=frozenset(checks),
            resolved_op_selection=job.resolved_op_selection,
            op_selection=None,
            remote_job_origin=job.get_remote_origin(),
            job_code_origin=job.get_python_origin(),
            asset_graph=request.asset_graph,
        )
        self._instance.launch_run(run.run_id, request)
        return run.run_id


def launch_run(
    platform: Platform, job: str, version: str, shards: Sequence[int] | None, *, on_line: Line
) -> RunOutcome:
    """Run shards of a version (None: all) through Dagster and wait for the end."""
    with Launcher(platform, pinned=[version]) as launcher:
        return launcher.run(job, version, shards, on_line=on_line)


def launch_publish(platform: Platform, job: str, version: str, *, on_line: Line) -> RunOutcome:
    """Check and publish a version through Dagster and wait for the end."""
    with Launcher(platform, pinned=[version]) as launcher:
        return launcher.publish(job, version, on_line=on_line)


def launch_snapshot(platform: Platform, job: str) -> RunOutcome:
    """Take a job's snapshot through Dagster and wait for the end."""
    with Launcher(platform) as launcher:
        return launcher.snapshot(job)


def _nothing() -> None:
    """No progress to say: the run is short."""
