"""I7: what a worker without the live epoch writes never counts, and what a live one committed always does."""

from __future__ import annotations

from typing import ClassVar

from batch_assets.simulation.checkers.base import Broken, Silent
from batch_assets.simulation.world.events import (
    BaseStands,
    Charged,
    Claimed,
    Completed,
    Event,
    PartStands,
    Released,
    Renewed,
)
from batch_assets.simulation.world.ledger import Ledger
from batch_assets.simulation.world.outlook import Outlook


class Fence(Silent):
    """Between a claim and its base, an older worker's part may be taken or not; before and after there is no choice."""

    invariant: ClassVar[str] = "I7"

    def __init__(self) -> None:
        self._stood_at_claim: dict[tuple[int, int], set[str]] = {}

    def before(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:  # noqa: ARG002
        """Check grants, what the table accepts, and what a base accepts."""
        match event:
            case Claimed(lease=lease):
                shelf = ledger.shelf(lease.shard)
                self._require(lease.epoch == shelf.newest_grant + 1, f"epoch {lease.epoch} of {lease.shard} is granted")
                self._require(shelf.outcome is None, f"shard {lease.shard} is granted after it was done")
                self._stood_at_claim[lease.shard, lease.epoch] = {part.key for part in shelf.standing()}
            case Renewed(lease=lease) | Released(lease=lease) | Charged(lease=lease):
                live = ledger.shelf(lease.shard).newest_grant
                self._require(lease.epoch == live, f"{type(event).__name__} under {lease.epoch}, live is {live}")
            case Completed(lease=lease, outcome=outcome):
                shelf = ledger.shelf(lease.shard)
                self._require(lease.epoch == shelf.newest_grant, f"completed under {lease.epoch}")
                self._require(shelf.outcome in {None, outcome}, f"shard {lease.shard} is done twice, differently")
            case BaseStands(shard=shard, epoch=epoch, accepted=accepted):
                shelf = ledger.shelf(shard)
                late = shelf.late & set(accepted)
                self._require(not late, f"the base of {shard}/{epoch} accepts late parts {sorted(late)}")
                if epoch > shelf.newest_base:
                    lost = self._stood_at_claim[shard, epoch] - set(accepted)
                    self._require(not lost, f"the base of {shard}/{epoch} leaves out committed {sorted(lost)}")
            case _:
                return

    def after(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:
        """Check that a late part changed nothing, and that a finished shard holds only what stood."""
        match event:
            case PartStands(shard=shard, key=key):
                shelf = ledger.shelf(shard)
                counts = key in {part.key for part in shelf.standing()}
                self._require(not (counts and key in shelf.late), f"the late part {key} counts")
            case Completed(lease=lease, outcome=outcome):
                shelf = ledger.shelf(lease.shard)
                for dead, compact in ((False, outcome.result_key), (True, outcome.dead_key)):
                    stood = shelf.rows(dead=dead)
                    held = {row["row"]: row for row in outlook.compact(compact)} if compact else {}
                    self._require(held == stood, f"{compact} of {lease.shard}/{lease.epoch} is not what stood")
            case _:
                return

    def _require(self, holds: bool, message: str) -> None:  # noqa: FBT001 - an assertion
        if not holds:
            raise Broken(self.invariant, message)
