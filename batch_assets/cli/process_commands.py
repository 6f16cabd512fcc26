"""`worker` and `ui`: commands that become another process."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Annotated

import typer

from batch_assets.cli import options
from batch_assets.cli.targets import find_version
from batch_assets.domain.errors import InvalidSpec
from batch_assets.domain.plan import parse_shards


def worker(
    version: options.RequiredVersion,
    *,
    shards: options.ShardsOption = None,
    name: Annotated[str | None, typer.Option("--name", help="Worker's name; default: host and process id.")] = None,
) -> None:
    """Work on a version here, beside any other worker: exit 0 no shard is left, 75 interrupted, 42 permanent."""
    from resources.platform import Platform

    _, found = find_version(Platform.open(), version)
    chosen_shards(shards)
    command = ["-m", "worker", "--version", found, "--worker", name or f"{socket.gethostname()}-{os.getpid()}"]
    os.execv(sys.executable, [sys.executable, *command, *(["--shards", shards] if shards else [])])  # noqa: S606


def ui(
    *,
    port: Annotated[int, typer.Option("--port", min=1, max=65_535, help="Port to listen on.")] = 3000,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Serve the Dagster UI on the instance that `run` uses (BATCH_ASSETS_DATA_DIR decides which)."""
    from batch_assets.dagster_home import ensure_dagster_home, project_folder
    from resources.settings import load_settings

    settings = load_settings()
    ensure_dagster_home(settings)
    os.environ.update(settings.environment())
    os.environ["BATCH_ASSETS_WEBSERVER_URL"] = f"http://{host}:{port}"
    os.chdir(project_folder())
    # A shell without job control starts background jobs with SIGINT ignored, and Dagster's children would inherit it:
    # nothing but SIGKILL would stop them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command = ["-m", "dagster", "dev", "--workspace", "workspace.yaml", "--host", host, "--port", str(port)]
    os.execv(sys.executable, [sys.executable, *command])  # noqa: S606


def chosen_shards(text: str | None) -> tuple[int, ...] | None:
    """Read `--shards`.

    Raises:
        UserError: it is not a list of numbers and ranges.
    """
    if text is None:
        return None
    try:
        return parse_shards(text)
    except ValueError:
        raise InvalidSpec(f"--shards: must be numbers and ranges like 0-3,7, is {text!r}") from None


COMMANDS = (worker, ui)
