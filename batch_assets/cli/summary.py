"""What a run made, for people: counts, the categories, a few rows, and where the files are."""

from __future__ import annotations

from typing import Any

import polars as pl

from batch_assets.cli.output import say, table
from batch_assets.domain.ports import VersionCounts
from batch_assets.domain.spec import JobSpec

SAMPLE_ROWS = 3
CELL_CHARACTERS = 60


def counts_line(counts: VersionCounts) -> str:
    """Return the sum that must come out even (I6)."""
    pending = f" + {counts.pending:,} pending" if counts.pending else ""
    return f"{counts.records:,} records = {counts.results:,} results + {counts.dead_letters:,} dead letters{pending}"


def enum_property(schema: dict[str, Any]) -> str | None:
    """Return the first property of an output schema whose values are a fixed list: what a category table counts."""
    properties: dict[str, Any] = schema.get("properties", {})
    return next((name for name, item in properties.items() if "enum" in item), None)


def show_results(spec: JobSpec, frame: pl.LazyFrame) -> None:
    """Print the category table and a few rows of a version's results."""
    category = enum_property(spec.schema)
    if category is not None:
        found = frame.group_by(category).len().sort("len", category, descending=[True, False]).collect()
        total = max(1, found["len"].sum())
        say("")
        table(
            [category, "results", "share"],
            [[name, count, f"{100 * count / total:.0f}%"] for name, count in found.rows()],
            right=["results", "share"],
        )
    columns = ["record_id", *spec.schema.get("properties", {})]
    say("")
    table(
        columns, [[_cell(value) for value in row] for row in frame.select(columns).head(SAMPLE_ROWS).collect().rows()]
    )


def _cell(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    text = " ".join(text.split())
    return text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 1] + "…"
