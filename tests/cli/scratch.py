"""A project of its own for a test: this code, one small job on the fake engine, an empty data folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CODE = ("batch_assets", "resources", "worker")
FILES = ("pyproject.toml", "workspace.yaml", "dagster.yaml", ".env")
TIMEOUT_S = 600

DEFS = """\
type: batch_assets.components.BatchJob
attributes:
  name: tickets
  description: A job for tests.
  input:
    uri: records.jsonl
    columns:
      carry: [lang]
      access: access
  model:
    name: fake
    path: models/none
    digest: sha256:0000000000000000000000000000000000000000000000000000000000000000
    engine: fake
  decoding:
    max_tokens: 100
  shard_size: 10
"""
PROMPT = "system: Sort the message.\n"
SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"type": "string", "enum": ["card", "refund", "other"]},
        "entities": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 40}},
        "summary": {"type": "string", "minLength": 1, "maxLength": 160},
        "urgent": {"type": "boolean"},
    },
    "required": ["category", "entities", "summary", "urgent"],
    "additionalProperties": False,
}
GOOD, BAD = 36, 3
RECORDS = [
    {"record_id": f"r-{number:03}", "text": f"message number {number}", "lang": "en", "access": ["support"]}
    for number in range(GOOD)
] + [
    {"record_id": "r-empty", "text": "", "lang": "en", "access": ["support"]},
    {"record_id": None, "text": "nobody's", "lang": "en", "access": ["support"]},
    {"record_id": "r-number", "text": 7, "lang": "en", "access": ["support"]},
]


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.stdout)

    @property
    def error(self) -> str:
        """What was said to a user whose command failed; a traceback is never that."""
        assert "Traceback" not in self.stderr, self.stderr
        return self.stderr


class ScratchProject:
    """The code at `root`, its data at `data`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"
        for name in CODE:
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("support_tickets", "__pycache__"))
        for name in FILES:
            shutil.copy(ROOT / name, root / name)
        self.job = root / "batch_assets" / "defs" / "tickets"
        self.job.mkdir(parents=True)
        (self.job / "defs.yaml").write_text(DEFS)
        (self.job / "prompt.yaml").write_text(PROMPT)
        (self.job / "output_schema.json").write_text(json.dumps(SCHEMA))
        self.write_records(RECORDS)

    def write_records(self, records: list[dict[str, Any]]) -> None:
        """Replace the job's input."""
        (self.job / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of a process of this project, and of no other."""
        own = {"PYTHONPATH": str(self.root), "BATCH_ASSETS_DATA_DIR": str(self.data), "COLUMNS": "200"}
        fast = {"BATCH_ASSETS_POLL_INTERVAL_S": "0.05", "BATCH_ASSETS_PART_INTERVAL_S": "0.2"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BATCH_ASSETS_", "DAGSTER_"))}
        return {**kept, **own, **fast, **more}

    def cli(self, *arguments: str, **environment: str) -> Done:
        """Run `batch-assets` to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "batch_assets.cli.app", *arguments],
            cwd=self.root,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def finish(self, *input_options: str) -> str:
        """Register, work, publish, and return the version: what `run` does, without Dagster and so in seconds."""
        registered = self.cli("register", "--json", *input_options)
        assert registered.code == 0, registered.stderr
        version: str = registered.json["version"]
        for command in ("worker", "publish"):
            done = self.cli(command, version)
            assert done.code == 0, done.stdout + done.stderr
        return version
