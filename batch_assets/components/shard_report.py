"""What a run of a version tells Dagster while it works: a materialization a shard, a progress line, a summary."""

from __future__ import annotations

import os
from collections.abc import Sequence

import dagster as dg

from batch_assets.components.checks import as_evaluation
from batch_assets.components.metadata import Metadata, preview_metadata, shard_metadata, totals_metadata
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
    its own run does not report as failed, and everything downstream with it. The asset's page shows the metadata of its
    latest materialization, so the last shard's is kept back for a second, until it can carry the run's summary.
    """

    def __init__(
        self, context: dg.AssetExecutionContext, platform: Platform, shards: Sequence[int], *, job: str, version: str
    ) -> None:
        self._context = context
        self._platform = platform
        self._key = version_key(job, version)
        self._job = job
        self._version = version
        self._done_before = {row.shard for row in platform.table.shards(version) if row.state is ShardState.DONE}
        self._reported = self._reported_before()
        self._to_report = len(set(shards) - self._reported)
        self._last: ShardRow | None = None
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
        self._to_report -= 1
        if self._to_report == 0:
            self._last = row
        else:
            self._materialized(row, {})

    def _materialized(self, row: ShardRow, more: Metadata) -> None:
        rate = self._latest.records_per_s if self._latest else None
        metadata = {**shard_metadata(row, records_per_s=rate), **more}
        self._context.log_event(dg.AssetMaterialization(self._key, partition=shard_key(row.shard), metadata=metadata))

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

        The check steps of a run that holds this asset too are skipped by Dagster (the asset gives no output), so their
        verdicts are logged from here.
        """
        numbers, pictures = self._numbers(rows), self._pictures()
        if self._last is not None:
            self._materialized(self._last, {**{f"run_{name}": value for name, value in numbers.items()}, **pictures})
        self._context.log_event(dg.AssetObservation(self._key, metadata={**numbers, **pictures}))
        counts = self._platform.table.counts(self._version)
        if counts is not None and counts.done:
            self._log_planned_checks()

    def _numbers(self, rows: Sequence[ShardRow]) -> Metadata:
        before = [row for row in rows if row.shard in self._done_before]
        found = {**totals_metadata(rows), "shards_already_done": len(before)}
        if self._latest is not None and self._latest.elapsed_s > 0:
            now = sum(row.records for row in rows) - sum(row.records for row in before)
            found["seconds"] = round(self._latest.elapsed_s, 1)
            found["records_per_s"] = round(now / self._latest.elapsed_s, 2)
        return found

    def _pictures(self) -> Metadata:
        spec = self._platform.registry.read(self._job, self._version).spec
        table = scan_version(self._platform, self._version, partial=True)
        plot = line_plot(self._points, title="records/s", x_label="seconds")
        return {"throughput_plot": plot, **preview_metadata(spec, table)}

    def _log_planned_checks(self) -> None:
        planned = self._context.run.asset_check_selection
        if planned is not None and not any(key.asset_key == self._key for key in planned):
            return
        for result in run_checks(self._platform, self._version):
            self._context.log_event(as_evaluation(self._key, result))
