"""The two ways to deploy, for scenes that must end the same on both: one folder, or PostgreSQL and S3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.exc import OperationalError

from resources.settings import Settings
from resources.shard_table.tables import SHARD

# Where the fault has nothing to do with the database or the store, the other stack has its turn in the slow suite.
MOSTLY_EMBEDDED = pytest.mark.parametrize(
    "stack", ["embedded", pytest.param("cluster", marks=pytest.mark.slow)], indirect=True
)
MOSTLY_CLUSTER = pytest.mark.parametrize(
    "stack", [pytest.param("embedded", marks=pytest.mark.slow), "cluster"], indirect=True
)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Where one scene's things lie. `places` are the settings that say so."""

    name: str
    folder: Path
    places: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data_dir(self) -> Path:
        """The data folder; its name in a process's environment says that the process is this scene's."""
        return Path(self.places.get("data_dir", self.folder / "data"))

    def settings(self, **changes: Any) -> Settings:
        """Return settings that commit often, so that a scene takes seconds."""
        fast = {"poll_interval_s": 0.05, "part_interval_s": 0.2, "part_records_max": 20}
        return Settings(**{"data_dir": self.data_dir, **fast, **self.places, **changes})

    def database_is_free(self) -> bool:
        """Whether nobody holds a lock in the shard table now: a process that is stopped while it does holds it on."""
        url = self.settings().shard_table_url
        is_sqlite = url.startswith("sqlite")
        engine = create_engine(url, connect_args={"timeout": 0.2} if is_sqlite else {})
        try:
            with engine.connect() as db:
                if is_sqlite:
                    db.exec_driver_sql("BEGIN IMMEDIATE")
                else:
                    db.execute(select(SHARD.c.shard).with_for_update(nowait=True))
                db.rollback()
        except OperationalError:
            return False
        finally:
            engine.dispose()
        return True
