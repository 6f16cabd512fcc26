"""Verdicts on a candidate, from counts that somebody else made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Counts of a version, made from the stored objects (not from the shard table).

    `duplicate_keys` are record ids with more than one result; `foreign_keys` are results or dead letters of rows that
    are not in the snapshot; `both` are rows with a result and a dead letter; `shards_missing` have no compact result.
    """

    records: int
    results: int
    dead_letters: int
    duplicate_keys: int
    foreign_keys: int
    both: int
    shards_missing: int

    @property
    def pending(self) -> int:
        """Records that are neither."""
        return self.records - self.results - self.dead_letters

    def problems(self) -> list[str]:
        """Return one sentence for each way in which the counts do not add up; empty if they do (I6)."""
        found = []
        if self.shards_missing:
            found.append(f"{self.shards_missing} shards are not finished")
        if self.pending != 0:
            found.append(
                f"{self.records} records are not {self.results} results + {self.dead_letters} dead letters "
                f"({self.pending} unaccounted for)"
            )
        elif self.records and not self.results:
            found.append(f"none of its {self.records} records has a result: there is nothing to publish")
        if self.duplicate_keys:
            found.append(f"{self.duplicate_keys} record ids have more than one result")
        if self.foreign_keys:
            found.append(f"{self.foreign_keys} results or dead letters belong to no record of the snapshot")
        if self.both:
            found.append(f"{self.both} records have a result and a dead letter")
        return found

    @property
    def passed(self) -> bool:
        """Whether every record is accounted for exactly once."""
        return not self.problems()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One gate's verdict on a version. `blocking` gates refuse publication when not passed."""

    name: str
    passed: bool
    blocking: bool
    summary: str
    details: dict[str, object]


def refusals(checks: list[CheckResult]) -> list[str]:
    """Return why a version may not be published, a sentence a check; empty if it may."""
    return [f"{check.name}: {check.summary}" for check in checks if check.blocking and not check.passed]
