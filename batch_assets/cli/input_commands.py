"""`snapshot` and `register`: fix the input, then name and plan the version that it makes with the recipe."""

from __future__ import annotations

from collections.abc import Sequence

from batch_assets.cli import options
from batch_assets.cli.output import emit, note, say
from batch_assets.cli.own_input import OwnInput
from batch_assets.cli.targets import declared_spec


def snapshot(
    job: options.JobArgument = None,
    *,
    input_uri: options.InputOption = None,
    id_column: options.IdColumnOption = None,
    text_column: options.TextColumnOption = None,
    id_type: options.IdTypeOption = None,
    carry: options.CarryOption = None,
    access_column: options.AccessOption = None,
    limit: options.LimitOption = None,
    json: options.JsonOption = False,
) -> None:
    """Take a snapshot of a job's input and say what is in it; no version is registered."""
    from resources.platform import Platform
    from resources.snapshots.take import take_snapshot

    own = OwnInput(
        uri=input_uri,
        id_column=id_column,
        text_column=text_column,
        id_type=id_type,
        carry=carry,
        access_column=access_column,
        limit=limit,
    )
    spec, notes = declared_spec(job, own)
    platform = Platform.open()
    taken = take_snapshot(spec.input, platform.store, s3=platform.s3)
    found = taken.snapshot
    show_notes([*notes, *taken.notes])
    if json:
        emit({"job": spec.name, "snapshot": found.name, "rows": found.rows, "format": taken.format, **found.to_json()})
    say(f"{found.name}  {found.rows:,} records in {len(found.objects)} object(s) of {found.uri}")


def register(
    job: options.JobArgument = None,
    *,
    input_uri: options.InputOption = None,
    id_column: options.IdColumnOption = None,
    text_column: options.TextColumnOption = None,
    id_type: options.IdTypeOption = None,
    carry: options.CarryOption = None,
    access_column: options.AccessOption = None,
    limit: options.LimitOption = None,
    json: options.JsonOption = False,
) -> None:
    """Take a snapshot, and register and plan the version that it makes with the job's recipe."""
    from batch_assets.cli.registering import describe, register_job

    own = OwnInput(
        uri=input_uri,
        id_column=id_column,
        text_column=text_column,
        id_type=id_type,
        carry=carry,
        access_column=access_column,
        limit=limit,
    )
    registered = register_job(job, own)
    if json:
        emit(describe(registered))


def show_notes(notes: Sequence[str]) -> None:
    """Say what the user should know about the input."""
    for text in notes:
        note(f"note: {text}")


COMMANDS = (snapshot, register)
