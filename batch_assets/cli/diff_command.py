"""`diff`: which records are new, changed, deleted or untouched between two inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from batch_assets.cli import options
from batch_assets.cli.output import emit, note, say
from batch_assets.cli.own_input import OwnInput

if TYPE_CHECKING:
    import pyarrow as pa

    from batch_assets.cli.comparing import Comparison

_SIDE = "File, folder, s3:// prefix, version, or 'current'."


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=f"What was. {_SIDE}")],
    new: Annotated[str, typer.Argument(metavar="NEW", help=f"What is. {_SIDE}")],
    *,
    job: Annotated[str | None, typer.Option("--job", help="Declared job; default: the only one.")] = None,
    id_column: options.IdColumnOption = None,
    text_column: options.TextColumnOption = None,
    id_type: options.IdTypeOption = None,
    carry: options.CarryOption = None,
    access_column: options.AccessOption = None,
    out: options.OutOption = None,
    json: options.JsonOption = False,
) -> None:
    """Compare two inputs by record id and by what the job's prompt shows: new, changed, deleted, unchanged."""
    from batch_assets.cli.comparing import compare
    from resources.platform import Platform
    from resources.results.export import check_format
    from resources.snapshots.contents import read_contents
    from resources.snapshots.diff import diff_snapshots

    if out is not None:
        check_format(out)
    own = OwnInput(
        id_column=id_column, text_column=text_column, id_type=id_type, carry=carry, access_column=access_column
    )
    platform = Platform.open()
    found = compare(platform, old, new, job, own)
    for side in (found.old, found.new):
        for text in side.notes:
            note(f"note: {side.name}: {text}")
    with diff_snapshots(
        found.old.snapshot,
        found.new.snapshot,
        found.columns,
        found.prompt_fields,
        old_contents=read_contents(platform.store, found.old.snapshot, found.columns, found.prompt_fields),
        s3=platform.s3,
        memory_limit=platform.settings.duckdb_memory,
    ) as difference:
        if out is not None:
            _write_rows(difference.rows(), found, out)
        changes = difference.changes
    if json:
        emit(
            {
                **changes.to_json(),
                "records_old": changes.rows_old,
                "records_new": changes.rows_new,
                "snapshot_old": found.old.snapshot.name,
                "snapshot_new": found.new.snapshot.name,
                "content": [*found.prompt_fields, *([found.columns.access] if found.columns.access else [])],
                "file": str(out) if out else None,
            }
        )
    counts = {name: getattr(changes, name) for name in ("changed", "new", "deleted", "unchanged")}
    say(", ".join(f"{count:,} {name}" for name, count in counts.items()))
    if changes.unusable_old or changes.unusable_new:
        say(
            "not compared, without an id or with one that is given several times: "
            f"{changes.unusable_old:,} rows of the old input, {changes.unusable_new:,} of the new one"
        )
    if out is not None:
        say(f"the rows that are not unchanged are in {out}")


def _write_rows(batches: Iterable[pa.RecordBatch], found: Comparison, out: Path) -> None:
    """Write record_id, change, and where the row is in each input: the object's key and the row in it, 0-based."""
    import polars as pl
    import pyarrow.parquet as pq

    from resources.results.export import write_results
    from resources.snapshots.diff import DIFF_SCHEMA

    with tempfile.TemporaryDirectory(prefix="batch-assets-diff-") as folder:
        staged = Path(folder, "rows.parquet")
        with pq.ParquetWriter(staged, DIFF_SCHEMA) as writer:
            for batch in batches:
                writer.write_batch(batch)
        rows = pl.scan_parquet(staged)
        for side, comparing in (("old", found.old), ("new", found.new)):
            keys = pl.LazyFrame(
                {
                    f"{side}_object_index": range(len(comparing.snapshot.objects)),
                    f"{side}_object": [item.key for item in comparing.snapshot.objects],
                },
                schema={f"{side}_object_index": pl.Int32, f"{side}_object": pl.String},
            )
            rows = rows.join(keys, on=f"{side}_object_index", how="left", maintain_order="left")
        columns = ["record_id", "change", "old_object", "old_object_row", "new_object", "new_object_row"]
        write_results(rows.select(columns), out)


COMMANDS = (diff,)
