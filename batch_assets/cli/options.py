"""Options and arguments that several commands share, spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from batch_assets.cli.output import use_json


def _json(value: bool) -> bool:  # noqa: FBT001 - typer's callback
    use_json(value)
    return value


OWN_PANEL = "Your own records instead of the declared input"

JsonOption = Annotated[
    bool,
    typer.Option("--json", callback=_json, is_eager=True, help="One JSON document on stdout, all else on stderr."),
]
JobArgument = Annotated[str | None, typer.Argument(metavar="[JOB]", help="Declared job; default: the only one.")]
VersionArgument = Annotated[
    str | None,
    typer.Argument(metavar="[VERSION]", help="Version, a job (its newest version) or 'current'; default: the newest."),
]
RequiredVersion = Annotated[
    str, typer.Argument(metavar="VERSION", help="Version, a job (its newest version) or 'current'.")
]
TargetArgument = Annotated[
    str | None,
    typer.Argument(metavar="[JOB|VERSION]", help="A job: snapshot and register first. A version: go on with it."),
]
ShardsOption = Annotated[str | None, typer.Option("--shards", help="Shard numbers, e.g. 0-3,7; default: all.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="What the release log shows.")]
RequiredOutOption = Annotated[Path, typer.Option("--out", help="File to write: .parquet, .csv or .jsonl.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="File to write: .parquet, .csv or .jsonl.")]

InputOption = Annotated[
    str | None,
    typer.Option("--input", help="File, folder or s3:// prefix: Parquet, CSV, JSON lines.", rich_help_panel=OWN_PANEL),
]
IdColumnOption = Annotated[
    str | None, typer.Option("--id-column", help="Column of record ids.", rich_help_panel=OWN_PANEL)
]
TextColumnOption = Annotated[
    str | None, typer.Option("--text-column", help="Column of the text.", rich_help_panel=OWN_PANEL)
]
IdTypeOption = Annotated[
    str | None,
    typer.Option("--id-type", help="'integer' takes integer ids of JSON lines as text.", rich_help_panel=OWN_PANEL),
]
CarryOption = Annotated[
    str | None,
    typer.Option("--carry", help="Columns to copy to the results, e.g. lang,source.", rich_help_panel=OWN_PANEL),
]
AccessOption = Annotated[
    str | None, typer.Option("--access-column", help="Column of access labels.", rich_help_panel=OWN_PANEL)
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Take only the first n records.", rich_help_panel=OWN_PANEL)
]
