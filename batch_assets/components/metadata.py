"""What people look at in Dagster: numbers, tables and pictures, made from the flow's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import dagster as dg
import polars as pl

from batch_assets.components.plots import bar_chart
from batch_assets.domain.lease import ShardRow
from batch_assets.domain.release import Release
from batch_assets.domain.spec import JobSpec
from batch_assets.domain.validation import CheckResult
from resources.flow import Registration
from resources.releases.log import Published

Metadata: TypeAlias = dict[str, Any]

PREVIEW_ROWS = 5
CELL_CHARS_MAX = 120


def registration_metadata(registration: Registration, *, loaded: bool) -> Metadata:
    """Metadata of a snapshot and of the version that it registered."""
    plan = registration.plan
    found: Metadata = {
        "snapshot": registration.snapshot.name,
        "objects": len(registration.snapshot.objects),
        "dagster/row_count": registration.snapshot.rows,
        "version": registration.version,
        "registered": "now" if registration.new else "earlier: the same input and recipe are the same version",
        "shards": len(plan.shards),
        "refused_at_planning": plan.refused,
    }
    if registration.notes:
        found["notes"] = "; ".join(registration.notes)
    if not loaded:
        found["next"] = "the version is an asset after the code location is reloaded (Deployment → Reload)"
    return found


def shard_metadata(row: ShardRow, *, records_per_s: float | None) -> Metadata:
    """Metadata of one finished shard. `records_per_s` is the whole run's rate, None if it did not run just now."""
    outcome = row.outcome
    found: Metadata = {
        "dagster/partition_row_count": row.results,
        "records": row.records,
        "results": row.results,
        "dead_letters": row.dead_letters + row.refused,
        "epoch": row.epoch,
        "worker": row.worker or "unknown",
    }
    if outcome is not None:
        found |= {
            "prompt_tokens": outcome.prompt_tokens,
            "cached_tokens": outcome.cached_tokens,
            "output_tokens": outcome.output_tokens,
            "object": outcome.result_key,
        }
    if records_per_s is not None:
        found["records_per_s"] = round(records_per_s, 2)
    return found


def totals_metadata(rows: Sequence[ShardRow]) -> Metadata:
    """Sums over the shards of one run."""
    outcomes = [row.outcome for row in rows if row.outcome is not None]
    return {
        "shards": len(rows),
        "records": sum(row.records for row in rows),
        "results": sum(row.results for row in rows),
        "dead_letters": sum(row.dead_letters + row.refused for row in rows),
        "prompt_tokens": sum(outcome.prompt_tokens for outcome in outcomes),
        "cached_tokens": sum(outcome.cached_tokens for outcome in outcomes),
        "output_tokens": sum(outcome.output_tokens for outcome in outcomes),
    }


def preview_metadata(spec: JobSpec, table: pl.LazyFrame) -> Metadata:
    """Metadata of a table of results: some rows, and how often each value of the first enum occurs."""
    wanted = [name for name in ("record_id", *spec.schema["properties"]) if name in table.collect_schema().names()]
    found: Metadata = {"preview": table_metadata(table.select(wanted).head(PREVIEW_ROWS).collect().to_dicts())}
    if (column := chart_column(spec)) in wanted:
        counts = table.group_by(column).len().collect()
        named = {str(value): int(count) for value, count in counts.iter_rows()}
        if named:
            found[f"{column}_chart"] = bar_chart(named, title=f"results by {column}")
    return found


def chart_column(spec: JobSpec) -> str | None:
    """Return the first property of the output schema that has a closed set of values, or None."""
    properties: Mapping[str, Any] = spec.schema.get("properties", {})
    return next((name for name, kind in properties.items() if isinstance(kind, dict) and "enum" in kind), None)


def table_metadata(rows: Sequence[Mapping[str, object]]) -> dg.TableMetadataValue | dg.TextMetadataValue:
    """Return rows as Dagster's own table.

    Not as Markdown: the cells are a model's words about somebody's text (I9), and a picture or link in them must stay
    text.
    """
    if not rows:
        return dg.MetadataValue.text("no rows")
    return dg.MetadataValue.table([dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in rows])


def _cell(value: object) -> str | int | float | bool:
    if isinstance(value, (bool, int, float)):
        return value
    text = "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= CELL_CHARS_MAX else text[: CELL_CHARS_MAX - 1] + "…"


def check_metadata(result: CheckResult) -> Metadata:
    """Metadata of a gate: its numbers as numbers, lists of rows as tables, the rest as JSON."""
    found: Metadata = {"blocking": result.blocking}
    for name, value in result.details.items():
        if isinstance(value, (bool, int, float, str)):
            found[name] = value
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            found[name] = table_metadata(value)
        elif isinstance(value, (dict, list)) and value:
            found[name] = dg.MetadataValue.json(value)
    return found


def dead_letter_metadata(version: str, frame: pl.DataFrame) -> Metadata:
    """Counts of each failure class, with one record and reason to look at."""
    by_class = (
        frame.group_by("failure")
        .agg(pl.len().alias("records"), pl.col("record_id").first(), pl.col("reason").first())
        .sort("records", "failure", descending=[True, False])
    )
    found: Metadata = {
        "version": version,
        "dagster/row_count": frame.height,
        "by_failure": table_metadata(by_class.to_dicts()),
    }
    if frame.height:
        counts = {str(row["failure"]): int(row["records"]) for row in by_class.to_dicts()}
        found["failure_chart"] = bar_chart(counts, title="dead letters by class")
    return found


def release_metadata(spec: JobSpec, before: Release | None, published: Published, table: pl.LazyFrame) -> Metadata:
    """From which release to which, why, by which verdicts, and what the table looks like."""
    release = published.release
    previous = f"release {before.sequence}, {before.version}" if before else "nothing was published"
    return {
        "release": release.sequence,
        "version": release.version,
        "before": previous,
        "published": "now" if published.appended else "earlier: it was current already",
        "reason": release.reason,
        "published_at": release.published_at,
        "dagster/row_count": int(table.select(pl.len()).collect().item()),
        "checks": table_metadata([{"check": name, "verdict": text} for name, text in release.checks.items()]),
        **preview_metadata(spec, table),
    }
