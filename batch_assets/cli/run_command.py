"""`run`: the whole line through the Dagster instance, so that the UI shows the runs and can end them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from batch_assets.cli import options
from batch_assets.cli.output import emit
from batch_assets.cli.own_input import OwnInput
from batch_assets.cli.process_commands import chosen_shards


def run(
    target: options.TargetArgument = None,
    *,
    shards: options.ShardsOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Take up a version that was cancelled.")] = False,
    publish: Annotated[bool, typer.Option(help="Check and publish when every shard is done.")] = True,
    input_uri: options.InputOption = None,
    id_column: options.IdColumnOption = None,
    text_column: options.TextColumnOption = None,
    id_type: options.IdTypeOption = None,
    carry: options.CarryOption = None,
    access_column: options.AccessOption = None,
    limit: options.LimitOption = None,
    json: options.JsonOption = False,
) -> None:
    """Answer every record: snapshot and register a job (or go on with a version), run its shards, check, publish."""
    from batch_assets.cli.running import Wish, run_wish

    wish = Wish(
        target=target,
        shards=chosen_shards(shards),
        resume=resume,
        publish=publish,
        own=OwnInput(
            uri=input_uri,
            id_column=id_column,
            text_column=text_column,
            id_type=id_type,
            carry=carry,
            access_column=access_column,
            limit=limit,
        ),
    )
    done: dict[str, Any] = run_wish(wish)
    if json:
        emit(done)


COMMANDS = (run,)
