"""`results`, `dead-letters` and `view`: the answers, the records that will get none, and SQL to read `current`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from batch_assets.cli import options
from batch_assets.cli.exits import NotDone
from batch_assets.cli.output import emit, say, table
from batch_assets.cli.targets import CURRENT, find_version, job_name
from batch_assets.cli.version_commands import counts_of
from resources.platform import Platform

if TYPE_CHECKING:
    import polars as pl

SHOWN = 50


def results(
    version: options.RequiredVersion,
    *,
    out: options.RequiredOutOption,
    partial: Annotated[
        bool, typer.Option("--partial", help="Also write a version that is not finished: what is committed now.")
    ] = False,
    json: options.JsonOption = False,
) -> None:
    """Write one row a record with its answer and where it comes from; dead letters have their own command."""
    from batch_assets.cli.reading import current_results, readable, version_results
    from resources.results.export import write_results

    platform = Platform.open()
    job, name = find_version(platform, version)
    counts = counts_of(platform, name)
    if counts.pending and not partial:
        raise NotDone(f"{name}: {counts.pending:,} records are pending; --partial writes what is there")
    frame = current_results(platform, job) if version == CURRENT else None
    if frame is None:
        frame = version_results(platform, job, name, partial=partial)
    with readable():
        write_results(frame, out)
        rows = row_count(frame)
    if json:
        emit({"job": job, "version": name, "rows": rows, "file": str(out), "pending": counts.pending})
    say(f"{rows:,} results of {job} {name} are in {out}")


def dead_letters(
    version: options.VersionArgument = None, *, out: options.OutOption = None, json: options.JsonOption = False
) -> None:
    """Show the records that will get no result in a version, each with its class and reason."""
    from batch_assets.cli.reading import readable, version_dead_letters
    from resources.results.export import write_results

    platform = Platform.open()
    job, name = find_version(platform, version)
    frame = version_dead_letters(platform, job, name)
    if out is not None:
        with readable():
            write_results(frame, out)
            rows = row_count(frame)
        if json:
            emit({"job": job, "version": name, "rows": rows, "file": str(out)})
        say(f"{rows:,} dead letters of {job} {name} are in {out}")
        return
    with readable():
        rows_shown = [_plain(row) for row in frame.collect().to_dicts()]
    if json:
        emit(rows_shown)
        return
    columns = ["record_id", "object_key", "object_row", "failure", "reason", "attempts"]
    table(columns, [["" if row[name] is None else row[name] for name in columns] for row in rows_shown[:SHOWN]])
    if len(rows_shown) > SHOWN:
        say(f"... and {len(rows_shown) - SHOWN:,} more; --out writes all of them")
    say(f"{len(rows_shown):,} dead letters of {job} {name}")


def view(job: options.JobArgument = None) -> None:
    """Print the DuckDB SQL that makes a view of what `current` is now."""
    from resources.releases.view import view_sql

    platform = Platform.open()
    say(view_sql(platform.store, job_name(job), s3=platform.s3))


def row_count(frame: pl.LazyFrame) -> int:
    """Return how many rows a frame has."""
    import polars as pl

    count: int = frame.select(pl.len()).collect().item()
    return count


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON values: what a model said is bytes that may be anything."""
    return {
        name: value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
        for name, value in row.items()
    }


COMMANDS = (results, dead_letters, view)
