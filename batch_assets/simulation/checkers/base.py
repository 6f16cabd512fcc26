"""What a checker is: it sees each event before and after its effect is in the ledger, and the end of the world."""

from __future__ import annotations

from typing import ClassVar, Protocol

from batch_assets.simulation.world.events import Event
from batch_assets.simulation.world.ledger import Ledger
from batch_assets.simulation.world.outlook import Outlook


class Broken(AssertionError):
    """An invariant does not hold; the message says which, where and how."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


class Checker(Protocol):
    """One invariant."""

    invariant: ClassVar[str]

    def before(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:
        """Look at what is about to be noted."""
        ...

    def after(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:
        """Look at what stands now."""
        ...

    def end(self, ledger: Ledger, outlook: Outlook) -> None:
        """Look at the world when every shard is done and every process has ended."""
        ...


class Silent:
    """A checker that has nothing to say; others say what they look at."""

    invariant: ClassVar[str] = ""

    def before(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:
        """Look at nothing."""

    def after(self, event: Event, ledger: Ledger, outlook: Outlook) -> None:
        """Look at nothing."""

    def end(self, ledger: Ledger, outlook: Outlook) -> None:
        """Look at nothing."""
