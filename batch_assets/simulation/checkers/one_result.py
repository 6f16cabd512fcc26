"""I1: a record has at most one visible result, and once it is visible it stays that one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from batch_assets.simulation.checkers.base import Broken, Silent
from batch_assets.simulation.world.events import BaseStands, Completed, Event, PartStands
from batch_assets.simulation.world.ledger import Ledger
from batch_assets.simulation.world.outlook import Outlook

Identity = tuple[int, str, str, object]


class OneResult(Silent):
    """Follows each record's first result from the moment at which a live lease committed it."""

    invariant: ClassVar[str] = "I1"

    def __init__(self) -> None:
        self._fixed: dict[tuple[int, int], Identity] = {}

    def after(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:
        """Check the shard that changed."""
        match event:
            case PartStands(shard=shard) | BaseStands(shard=shard):
                self._look(shard, ledger)
            case Completed(lease=lease, outcome=outcome):
                rows = outlook.compact(outcome.result_key)
                for name in ("row", "record_id"):
                    twice = [value for value, times in Counter(row[name] for row in rows).items() if times > 1]
                    if twice:
                        raise Broken(self.invariant, f"{outcome.result_key} has {name} {twice} more than once")
                self._compare(lease.shard, {row["row"]: row for row in rows})
            case _:
                return

    def end(self, ledger: Ledger, outlook: Outlook) -> None:
        """Check the whole version: no record id in two shards."""
        ids: Counter[str] = Counter()
        for _, shelf in ledger:
            if shelf.outcome is not None:
                ids.update(row["record_id"] for row in outlook.compact(shelf.outcome.result_key))
        twice = [name for name, times in ids.items() if times > 1]
        if twice:
            raise Broken(self.invariant, f"records {twice} have more than one result")

    def _look(self, shard: int, ledger: Ledger) -> None:
        shelf = ledger.shelf(shard)
        visible = shelf.rows(dead=False)
        self._compare(shard, visible)
        # What an older lease wrote between a claim and its base binds once a base has accepted it.
        binding = shelf.newest_base == shelf.newest_grant
        accepted = set(shelf.bases.get(shelf.newest_base, ()))
        for part in shelf.standing():
            if not part.dead and (binding or part.key in accepted):
                for row in part.rows:
                    self._fixed.setdefault((shard, row["row"]), _identity(visible[row["row"]]))

    def _compare(self, shard: int, visible: Mapping[int, Mapping[str, Any]]) -> None:
        for (owner, row), identity in self._fixed.items():
            if owner == shard and (row not in visible or _identity(visible[row]) != identity):
                now = _identity(visible[row]) if row in visible else "gone"
                raise Broken(self.invariant, f"the result of {shard}/{row} was {identity} and is {now}")


def _identity(row: Mapping[str, Any]) -> Identity:
    return row["epoch"], row["worker"], row["output_sha256"], row["answered_at"]
