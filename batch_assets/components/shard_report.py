"""What a run of a version tells Dagster while it works: a materialization a shard, a progress line, a summary."""

from __future__ import annotations

import os
from collections.abc import Sequence

import dagster as dg

from batch_assets.components.checks import as_evaluation
from batch_assets.components.metadata import preview_metadata, shard_metadata, totals_metadata
from batch_assets.components.names import version_key
from batch_assets.components.plots import line_plot
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.plan import shard_key
from batch_assets.domain.progress import Progress
from resources.flow import run_checks, scan_version
from resources.platform import Platform

LOG_INTERVAL_S = 10.0
POINTS_MAX = 400
BACKFILL_TAG = "dagster/backfill"
PLANNED_EVENTS_VARIABLE = "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS"


class ShardReport:
    """Reports of one run.

    Shards that were finished and reported before are not reported again, unless a backfill asks: it counts a shard that
    its own run does not report as failed, and everything downstream with it.
    """

    def __init__(self, context: dg.AssetExecutionContext, platform: Platform, *, job: str, version: str) -> None:
        self._context = context
        self._platform = platform
        self._key = version_key(job, version)
        self._job = job
        self._version = version
        self._done_before = {row.shard for row in platform.table.shards(version) if row.state is ShardState.DONE}
        self._reported = self._reported_before()
        self._latest: Progress | None = None
        self._logged_s = -LOG_INTERVAL_S
        self._points: list[tuple[float, float]] = []
        if os.environ.get(PLANNED_EVENTS_VARIABLE, "").lower() != "true":
            context.log.warning(
                "%s is not true here: shards that an unfinished run had planned will show as failed. Start webserver "
                "and daemon in the project's folder (its .env sets it), or set it for both.",
                PLANNED_EVENTS_VARIABLE,
            )

    def _reported_before(self) -> set[int]:
        if not self._done_before or BACKFILL_TAG in self._context.run.tags:
            return set()
        known = self._context.instance.get_materialized_partitions(self._key)
        return {shard for shard in self._done_before if shard_key(shard) in known}

    def shard(self, row: ShardRow) -> None:
        """Log a finished shard's materialization: its partition turns green now."""
        if row.shard in self._reported:
            return
        rate = self._latest.records_per_s if self._latest else None
        self._context.log_event(
            dg.AssetMaterialization(
                self._key, partition=shard_key(row.shard), metadata=shard_metadata(row, records_per_s=rate)
            )
        )

    def tick(self, progress: Progress) -> None:
        """Keep a point of the throughput plot; log a progress line now and then."""
        self._latest = progress
        self._points.append((progress.elapsed_s, progress.records_per_s))
        if len(self._points) > POINTS_MAX:
            self._points = self._points[::2]
        if progress.elapsed_s - self._logged_s >= LOG_INTERVAL_S:
            self._logged_s = progress.elapsed_s
            self._context.log.info(progress.line())

    def summary(self, rows: Sequence[ShardRow]) -> None:
        """Log what the run did, and, once every shard is done, the verdicts of the checks that the run planned.

        An observation, because a materialization belongs to one partition. The check steps of a run that holds this
        asset too are skipped by Dagster (the asset gives no output), so their verdicts are logged from here.
        """
        counts = self._platform.table.counts(self._version)
        metadata = totals_metadata(rows)
        metadata["shards_already_done"] = sum(row.shard in self._done_before for row in rows)
        if self._latest is not None:
            metadata["seconds"] = round(self._latest.elapsed_s, 1)
            metadata["throughput_plot"] = line_plot(self._points, title="records/s", x_label="seconds")
        if counts is not None and counts.done:
            spec = self._platform.registry.read(self._job, self._version).spec
            metadata |= preview_metadata(spec, scan_version(self._platform, self._version))
            self._log_planned_checks()
        self._context.log_event(dg.AssetObservation(self._key, metadata=metadata))

    def _log_planned_checks(self) -> None:
        planned = self._context.run.asset_check_selection
        if planned is not None and not any(key.asset_key == self._key for key in planned):
            return
        for result in run_checks(self._platform, self._version):
            self._context.log_event(as_evaluation(self._key, result))
