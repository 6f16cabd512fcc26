"""What changed between two snapshots, as counts, and whether a night may be built on it.

A record can be compared if it has an id that its own snapshot gives once, and the other one at most once. The rest is
`unusable`: rows without an id, every row of an id that either snapshot gives several times. Nobody can say which of
them became which, so none of them is compared, and all of the new snapshot's are handed on, to be judged by planning.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from batch_assets.domain.errors import ConservationBroken


class Change(StrEnum):
    """What became of a record."""

    NEW = "new"
    CHANGED = "changed"
    DELETED = "deleted"
    UNCHANGED = "unchanged"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Counts of records (`unusable_*`: of rows), which add up to both snapshots.

    `blurred` are those of `unusable_old` that had an id of their own until the new snapshot gave it several times.
    `unusable_alike` says that both snapshots have the very same unusable rows.
    """

    new: int
    changed: int
    deleted: int
    unchanged: int
    unusable_old: int
    unusable_new: int
    blurred: int
    unusable_alike: bool

    @property
    def rows_old(self) -> int:
        """Rows of the old snapshot."""
        return self.unchanged + self.changed + self.deleted + self.unusable_old

    @property
    def rows_new(self) -> int:
        """Rows of the new snapshot."""
        return self.unchanged + self.changed + self.new + self.unusable_new

    @property
    def delta_rows(self) -> int:
        """Rows of the new snapshot that a delta holds."""
        return self.new + self.changed + self.unusable_new

    def check(self, *, rows_old: int, rows_new: int) -> None:
        """Check that every row of both snapshots is counted once.

        Raises:
            ConservationBroken: they are not.
        """
        if (self.rows_old, self.rows_new) != (rows_old, rows_new) or min(asdict(self).values()) < 0:
            raise ConservationBroken(f"the snapshots have {rows_old} and {rows_new} rows, their difference is {self}")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `Changes(**value)` gives them back."""
        return asdict(self)


def refuses(changes: Changes, lost_share_max: float) -> str | None:
    """Return why the new snapshot is refused as an accident upstream, or None.

    Lost are records that are gone, and those whose id the new snapshot gives several times: a file that was delivered
    twice makes all of its records unanswerable. The share is of the old records with an id of their own.
    """
    comparable = changes.unchanged + changes.changed + changes.deleted + changes.blurred
    lost = changes.deleted + changes.blurred
    if not comparable or lost <= lost_share_max * comparable:
        return None
    blurred = f", {changes.blurred:,} have an id that it now gives more than once" if changes.blurred else ""
    return (
        f"the new snapshot lost {lost:,} of {comparable:,} records ({lost / comparable:.1%}, the limit is "
        f"{lost_share_max:.1%}): {changes.deleted:,} are gone{blurred}. A mass deletion that is meant needs a higher "
        "limit, or a full version; anything else is to be mended at the source"
    )


def skip_reason(changes: Changes) -> str | None:
    """Return why there is nothing to do, or None if a delta is due."""
    if changes.new or changes.changed or changes.deleted or not changes.unusable_alike:
        return None
    unusable = f" and the same {changes.unusable_new:,} rows without a usable id" if changes.unusable_new else ""
    return f"nothing changed: {changes.unchanged:,} records as before{unusable}"
