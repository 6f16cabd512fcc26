"""I6: at every moment, records = results + dead letters + pending, from what is stored; the table never says more."""

from __future__ import annotations

from typing import ClassVar

from batch_assets.simulation.checkers.base import Broken, Silent
from batch_assets.simulation.world.events import BaseStands, Completed, Event, PartStands, Released, Renewed
from batch_assets.simulation.world.ledger import Ledger
from batch_assets.simulation.world.outlook import Outlook


class Conservation(Silent):
    """Counts a shard whenever something of it changes."""

    invariant: ClassVar[str] = "I6"

    def after(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:
        """Check the shard that changed."""
        match event:
            case PartStands(shard=shard) | BaseStands(shard=shard):
                self._stored(shard, ledger, outlook)
            case Renewed(lease=lease, results=results, dead_letters=dead):
                self._said(lease.shard, results, dead, ledger, outlook)
            case Released(lease=lease, results=results, dead_letters=dead):
                self._said(lease.shard, results, dead, ledger, outlook)
            case Completed(lease=lease, outcome=outcome):
                self._said(lease.shard, outcome.results, outcome.dead_letters, ledger, outlook)
                if outcome.results + outcome.dead_letters != self._open(lease.shard, outlook):
                    raise Broken(self.invariant, f"shard {lease.shard} is done with {outcome}")
            case _:
                return

    def end(self, ledger: Ledger, outlook: Outlook) -> None:
        """Check the version's totals, by the table and by the objects."""
        counts = outlook.table.counts(outlook.template.version)
        stored = sum(len(shelf.rows(dead=dead)) for _, shelf in ledger for dead in (False, True))
        refused = len(outlook.template.shape.refused)
        if counts is None or counts.pending or stored + refused != outlook.template.shape.records:
            raise Broken(self.invariant, f"{stored} stored + {refused} refused; the table says {counts}")

    def _stored(self, shard: int, ledger: Ledger, outlook: Outlook) -> None:
        shelf = ledger.shelf(shard)
        results, dead = shelf.rows(dead=False).keys(), shelf.rows(dead=True).keys()
        template = outlook.template
        outside = [row for row in results | dead if not 0 <= row < template.plan.shards[shard].records]
        refused = [row for row in results | dead if template.place(shard, row) in template.shape.refused]
        if outside or refused or len(results) + len(dead) > self._open(shard, outlook):
            raise Broken(self.invariant, f"shard {shard} stores {sorted(results)} and, dead, {sorted(dead)}")

    def _said(self, shard: int, results: int, dead: int, ledger: Ledger, outlook: Outlook) -> None:
        shelf = ledger.shelf(shard)
        stored, buried = len(shelf.rows(dead=False)), len(shelf.rows(dead=True))
        if results > stored or dead > buried or results + dead > self._open(shard, outlook):
            raise Broken(
                self.invariant,
                f"the table says {results} + {dead} of shard {shard}; {stored} + {buried} stand",
            )

    @staticmethod
    def _open(shard: int, outlook: Outlook) -> int:
        piece = outlook.template.plan.shards[shard]
        return piece.records - piece.refused
