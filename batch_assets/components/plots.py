"""Small pictures for Dagster's pages, as Markdown with the PNG inside: no file to serve, a few kilobytes each."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

INCHES = (5.6, 2.4)
DPI = 72
BARS_MAX = 12
INK, FILL = "#3a3a3a", "#4f43dd"


def line_plot(points: Sequence[tuple[float, float]], *, title: str, x_label: str) -> dg.MarkdownMetadataValue:
    """Draw (x, y) points as a line."""

    def draw(axes: Any) -> None:
        axes.plot([x for x, _ in points], [y for _, y in points], color=FILL, linewidth=1.5)
        axes.set_xlabel(x_label, fontsize=8)
        axes.set_ylim(bottom=0)

    return _picture(draw, title)


def bar_chart(counts: Mapping[str, int], *, title: str) -> dg.MarkdownMetadataValue:
    """Draw counts as horizontal bars, the largest on top; beyond `BARS_MAX` the rest are one bar."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ordered[:BARS_MAX]
    if len(ordered) > BARS_MAX:
        rest = ordered[BARS_MAX - 1 :]
        shown = [*ordered[: BARS_MAX - 1], (f"{len(rest)} others", sum(count for _, count in rest))]

    def draw(axes: Any) -> None:
        bars = axes.barh([name[:40] for name, _ in shown], [count for _, count in shown], color=FILL)
        axes.bar_label(bars, labels=[f"{count:,}" for _, count in shown], fontsize=8, padding=2)
        axes.invert_yaxis()
        axes.margins(x=0.12)

    return _picture(draw, title)


def _picture(draw: Any, title: str) -> dg.MarkdownMetadataValue:
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second, needed only when something is drawn

    # A Figure without pyplot: no global state, no display, safe in threads.
    figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
    axes = figure.subplots()
    draw(axes)
    # parse_math off: the names are data, and `$` in them is not mathematics.
    axes.set_title(title, fontsize=9, color=INK, loc="left", parse_math=False)
    axes.tick_params(labelsize=8, colors=INK)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.spines[["top", "right"]].set_visible(False)
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return dg.MetadataValue.md(f"![{title}](data:image/png;base64,{base64.b64encode(written.getvalue()).decode()})")
