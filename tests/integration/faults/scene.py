"""A scene: a registered version on one stack, real workers on it, and the ending that every scene must reach."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.part import shard_prefix
from batch_assets.domain.spec import JobSpec
from resources.flow import scan_version, take_and_register
from resources.platform import Platform
from resources.results.parquet import fetch_parquet
from resources.settings import Settings
from tests.integration.faults.hands import Hand, survivors
from tests.integration.faults.journal import Journal
from tests.integration.faults.stacks import Stack
from tests.integration.faults.waiting import until
from tests.worker.harness import make_spec

ROOT = Path(__file__).parents[3]
WORKER = ("-m", "worker")
ONE_RUN = """
import sys
from resources.flow import drive
from resources.platform import Platform
drive(Platform.open(), sys.argv[1], None, on_done=lambda row: print("done", row.shard), on_tick=lambda _: None)
"""


def messages(count: int) -> list[str]:
    """Return texts that differ."""
    return [f"message {number}" for number in range(count)]


class Scene:
    """See the module's docstring. Use it as a context manager: it leaves no process behind, however it ends.

    Args:
        stack: where things lie.
        texts: of the records; their ids are `r00000`, `r00001`, ...
        shard_size: records a shard; by default one shard holds all.
        max_num_seqs: what the fake engine answers at each step; the window is 1.25 times that.
        spec: another job than the usual one on the fake engine.
        registered: a job and a version of it that stands already, over these texts.
        settings: of every process of the scene, this one included.
    """

    def __init__(
        self,
        stack: Stack,
        texts: Sequence[str],
        *,
        shard_size: int | None = None,
        max_num_seqs: int = 8,
        spec: Callable[[JobSpec], JobSpec] = lambda spec: spec,
        registered: tuple[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.stack = stack
        self.texts = list(texts)
        self.changes = settings
        self.platform = Platform.open(stack.settings(**settings))
        if registered is not None:
            job, self.version = registered
            self.spec = self.platform.registry.read(job, self.version).spec
        else:
            made = make_spec(stack.folder, texts, shard_size=shard_size or len(texts), max_num_seqs=max_num_seqs)
            self.spec = spec(made)
            self.version = take_and_register(self.platform, self.spec).version
        self.window = int(self.spec.model.max_num_seqs * 1.25)
        self.journal = Journal(stack.folder / "journal")
        self.journal.path.mkdir(exist_ok=True)
        self.hands: list[Hand] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.living:
            process.kill()
        for hand in self.hands:
            hand.process.wait()
        self.platform.table.close()

    def environment(self, faults: Mapping[str, Any] | None = None, **settings: Any) -> dict[str, str]:
        """Return the environment of one of the scene's processes; `faults` are the fake engine's."""
        return {**os.environ, "PYTHONPATH": str(ROOT), **self.settings(faults, **settings).environment()}

    def settings(self, faults: Mapping[str, Any] | None = None, **settings: Any) -> Settings:
        """Return the settings of one of the scene's processes."""
        told = json.dumps({"journal": str(self.journal.path), **(faults or {})})
        return self.stack.settings(**{"fake_faults": told, **self.changes, **settings})

    def worker(
        self,
        name: str,
        faults: Mapping[str, Any] | None = None,
        *,
        program: Sequence[str] = WORKER,
        **settings: Any,
    ) -> Hand:
        """Start `python -m worker` on the version."""
        arguments = [*program, "--version", self.version, "--worker", name]
        return self.start(name, arguments, self.environment(faults, **settings))

    def run(self, name: str, faults: Mapping[str, Any] | None = None, **settings: Any) -> Hand:
        """Start a process that runs the version with a fleet of its own, as the step of a Dagster run does."""
        return self.start(name, ["-c", ONE_RUN, self.version], self.environment(faults, **settings))

    def start(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], *, folder: Path = ROOT
    ) -> Hand:
        """Start any other program of Python's as one of the scene's processes."""
        log_file = self.stack.folder / f"{name}.log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.hands.append(Hand(name, process, log_file))
        return self.hands[-1]

    @property
    def living(self) -> list[psutil.Process]:
        """The processes of the scene that live: all know its data folder, or were born in the session of one."""
        return survivors(str(self.stack.data_dir), [hand.process.pid for hand in self.hands])

    @property
    def log_dir(self) -> Path:
        """Where fleets write their workers' logs."""
        return self.platform.settings.log_dir

    @property
    def loss_max(self) -> int:
        """What one death may cost: the records in flight, and what came since the last part.

        A part is put beside the loop, which goes on meanwhile: one more may have filled up, a third have begun.
        """
        return self.window + 3 * self.platform.settings.part_records_max

    @property
    def rows(self) -> list[ShardRow]:
        """The shard table's rows."""
        return self.platform.table.shards(self.version)

    @property
    def row(self) -> ShardRow:
        """The row of the first shard, in most scenes the only one."""
        return self.rows[0]

    @property
    def committed(self) -> int:
        """Results that the shard table knows of."""
        return sum(row.results for row in self.rows)

    def until_committed(self, results: int) -> None:
        """Wait until so many results stand, and the version is still in work."""
        until(lambda: self.committed >= results, f"{results} committed results")
        assert any(row.state is not ShardState.DONE for row in self.rows), "the scene came too late: all is done"

    def freeze(self, hand: Hand) -> None:
        """Stop a process, at a moment when it holds no lock in the database: else it would stop everybody."""
        while True:
            hand.signal(signal.SIGSTOP)
            until(hand.is_stopped, f"{hand.name} to stand still")
            if self.stack.database_is_free():
                return
            hand.signal(signal.SIGCONT)

    def parts(self, epoch: int) -> list[str]:
        """Return the keys of the objects that the first shard's leases of one epoch wrote to staging."""
        keys = [item.key for item in self.platform.store.list(shard_prefix(self.spec.name, self.version, 0))]
        return [key for key in keys if f"/epoch={epoch:04d}/" in key and key.endswith(".parquet")]

    def rows_of(self, keys: Sequence[str]) -> int:
        """Return how many results or dead letters parts hold."""
        return sum(fetch_parquet(self.platform.store, key, ["row"]).num_rows for key in keys)

    def epochs_of_results(self) -> dict[int, int]:
        """Return how many results each epoch made of those that readers see."""
        frame = scan_version(self.platform, self.version).group_by("epoch").len().collect()
        return dict(frame.rows())
