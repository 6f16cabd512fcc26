"""The planner's table as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batch_assets.simulation.planner import Row


def draw(rows: Sequence[Row], file: Path) -> None:
    """Write makespan and lost GPU-hours against shard size, a line a mode; the file's ending decides the format."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second that only a picture needs
    from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: PLC0415

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, name, title in zip(
        figure.subplots(1, 2), ("makespan_h", "lost_gpu_h"), ("makespan, h", "lost GPU-hours"), strict=True
    ):
        for mode in dict.fromkeys(row.mode for row in rows):
            mine = sorted((row for row in rows if row.mode == mode), key=lambda row: row.shard_size)
            style = "--" if mode == "shard-keyed" else "-"  # it lies on shard-append's line
            axes.plot(
                [row.shard_size for row in mine], [getattr(row, name) for row in mine], style, marker="o", label=mode
            )
        axes.set(title=title, xlabel="records a shard", xscale="log")
        axes.set_ylim(bottom=0)
        axes.set_xticks(sorted({row.shard_size for row in rows}))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.savefig(file, dpi=150)
