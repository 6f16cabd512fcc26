"""The invariants that every world is held to."""

from __future__ import annotations

from batch_assets.simulation.checkers.base import Checker
from batch_assets.simulation.checkers.conservation import Conservation
from batch_assets.simulation.checkers.fence import Fence
from batch_assets.simulation.checkers.hostage import NoHostage
from batch_assets.simulation.checkers.loss import BoundedLoss
from batch_assets.simulation.checkers.one_result import OneResult
from batch_assets.simulation.checkers.provenance import Provenance


def checkers() -> list[Checker]:
    """Return a new checker of each invariant."""
    return [OneResult(), NoHostage(), Conservation(), Fence(), BoundedLoss(), Provenance()]
