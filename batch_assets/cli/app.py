"""`batch-assets`: the command line for operators and scripts.

Commands import what they need when they run: a status must not wait for Dagster, vLLM or a data frame library.
"""

from __future__ import annotations

import sys

import typer

from batch_assets.cli import (
    audit_command,
    diff_command,
    input_commands,
    model_commands,
    process_commands,
    release_commands,
    result_commands,
    run_command,
    settings_command,
    simulate_command,
    storage_commands,
    version_commands,
)
from batch_assets.cli.exits import Exit, epilog, exit_for
from batch_assets.cli.output import emit, note, wants_json
from batch_assets.domain.errors import BatchError

app = typer.Typer(
    name="batch-assets",
    help="Batch LLM inference over millions of records: snapshot, run, check, publish, read.",
    epilog=epilog(),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    input_commands,
    diff_command,
    run_command,
    version_commands,
    audit_command,
    result_commands,
    release_commands,
    storage_commands,
    process_commands,
    simulate_command,
    settings_command,
):
    for command in module.COMMANDS:
        app.command(epilog=epilog())(command)
app.add_typer(model_commands.app, name="model")


def main() -> None:
    """Run one command: an error that was raised on purpose is one message, anything else keeps its traceback."""
    for stream in (sys.stdout, sys.stderr):
        # A file name or record id may hold bytes that are no text: showing them must not be another error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app()
    except SystemExit as ended:
        if ended.code == Exit.INTERRUPTED:  # Ctrl-C, as typer reports it
            note("interrupted; what was committed stays, and the same command goes on")
        raise
    except BatchError as error:
        code = exit_for(error)
        if wants_json():
            emit({"error": str(error), "kind": type(error).__name__, "exit_code": int(code)})
        note(f"Error: {error}")
        sys.exit(int(code))


if __name__ == "__main__":
    main()
