"""Where Dagster keeps its runs: one instance for the command line and the UI, made without a question."""

from __future__ import annotations

import os
from pathlib import Path

from batch_assets.domain.errors import InvalidSettings
from resources.job_file.read import project_root
from resources.settings import Settings

CONFIG = "dagster.yaml"
PLANNED_EVENTS = ("DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS", "true")


def ensure_dagster_home(settings: Settings) -> Path:
    """Return the instance's folder, and name it in this process's environment for Dagster and its children.

    It is `DAGSTER_HOME` if that is set, else `<data_dir>/dagster_home`, which is made with a link to the project's
    dagster.yaml.

    Raises:
        InvalidSettings: the folder cannot be made.
    """
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named).expanduser() if named else (settings.data_dir / "dagster_home").absolute()
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not named and not (home / CONFIG).exists():
            (home / CONFIG).unlink(missing_ok=True)  # a link to a project that has moved
            (home / CONFIG).symlink_to(project_folder() / CONFIG)
    except OSError as error:
        raise InvalidSettings(f"DAGSTER_HOME: {home} cannot be made: {error}") from None
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ.setdefault(*PLANNED_EVENTS)
    return home


def project_folder() -> Path:
    """The folder of workspace.yaml and dagster.yaml."""
    return project_root(Path(__file__).parent)
