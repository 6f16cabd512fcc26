"""I10: each result and dead letter says truly who made it, under which lease, from what, and at what cost."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

from batch_assets.domain.attempt import FAILURE_NAMES
from batch_assets.simulation.checkers.base import Broken, Silent
from batch_assets.simulation.world.events import Answered, Event, PartStands
from batch_assets.simulation.world.ledger import Ledger
from batch_assets.simulation.world.outlook import Outlook


class Provenance(Silent):
    """Compares each row with the lease that was granted and the answer that the engine gave."""

    invariant: ClassVar[str] = "I10"

    def __init__(self) -> None:
        self._said: dict[tuple[str, int, int], set[str]] = {}

    def after(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:
        """Note answers; check the rows of each part."""
        match event:
            case Answered(shard=shard, row=row, text=text):
                digest = hashlib.sha256(text.encode()).hexdigest()
                self._said.setdefault((event.process, shard, row), set()).add(digest)
            case PartStands(rows=rows):
                for made in rows:
                    wrong = self._wrong(event, made, ledger, outlook)
                    if wrong:
                        raise Broken(self.invariant, f"{event.key} row {made['row']}: {', '.join(wrong)}")
            case _:
                return

    def _wrong(self, part: PartStands, row: Mapping[str, Any], ledger: Ledger, outlook: Outlook) -> list[str]:
        template = outlook.template
        grant = ledger.shelf(part.shard).grants.get(part.epoch)
        expected = {
            "job_version": template.version,
            "recipe_digest": template.spec.recipe_digest,
            "model_digest": template.spec.model.digest,
            "shard": part.shard,
            "epoch": part.epoch,
            "worker": grant.worker if grant else "nobody",
            "record_id": f"r{template.place(part.shard, row['row']):04d}",
        }
        wrong = [f"{name} is {row[name]!r}, not {value!r}" for name, value in expected.items() if row[name] != value]
        if row["worker"] != part.process:
            wrong.append(f"{part.process} wrote it")
        if not 0 <= row["infrastructure_losses"] <= row["attempts"]:
            wrong.append(f"{row['attempts']} attempts, {row['infrastructure_losses']} of them lost")
        return wrong + (self._wrong_letter(row) if part.dead else self._wrong_result(part, row))

    def _wrong_result(self, part: PartStands, row: Mapping[str, Any]) -> list[str]:
        wrong = []
        if row["output_sha256"] not in self._said.get((part.process, part.shard, row["row"]), set()):
            wrong.append("no engine said that")
        if row["finish_reason"] != "stop" or min(row["prompt_tokens"], row["output_tokens"], row["attempts"]) < 1:
            wrong.append(f"{row['finish_reason']}, {row['prompt_tokens']} + {row['output_tokens']} tokens")
        return wrong

    @staticmethod
    def _wrong_letter(row: Mapping[str, Any]) -> list[str]:
        known = row["failure"] in FAILURE_NAMES and bool(row["reason"])
        return [] if known else [f"failure {row['failure']!r}, reason {row['reason']!r}"]
