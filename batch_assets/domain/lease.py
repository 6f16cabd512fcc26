r"""The state machine of a shard: pure transitions that every shard-table adapter must agree with.

    pending --claim--> leased --complete--> done
       ^                 |  \--release (version cancelled)--> cancelled
       |--- release -----|                                       ^   |
       |--- expiry ------|      pending --cancel version---------/   |
       ^---------------------------- resume version -----------------/

A claim raises the epoch by one; every later change names (shard, epoch, leased) or is `LeaseLost`. Time is seconds of
the shard table's clock, handed in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from batch_assets.domain.errors import LeaseLost, ShardCancelled


class ShardState(StrEnum):
    """Where a shard is."""

    PENDING = "pending"  # claimable
    LEASED = "leased"  # a worker holds it until its lease expires
    DONE = "done"  # its compact result stands; final
    CANCELLED = "cancelled"  # its version was cancelled; a resume makes it pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker's time-limited claim of a shard; `epoch` is the fencing token.

    `unclean_ends` counts earlier leases of this shard that expired instead of being released: the worker died or
    stalled with records in flight, so its successor treats the first unanswered records as suspects.
    """

    version: str
    shard: int
    worker: str
    epoch: int
    expires_at_s: float
    unclean_ends: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a finished shard produced: its objects, by digest, and counts.

    `dead_letters` counts the worker's own; records refused at planning are in the plan.
    """

    results: int
    dead_letters: int
    result_key: str
    result_digest: str
    dead_key: str | None = None
    dead_digest: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRow:
    """One row of the shard table. `results` and `dead_letters` are those committed so far."""

    version: str
    shard: int
    records: int
    refused: int
    estimated_tokens: int
    state: ShardState = ShardState.PENDING
    worker: str | None = None
    expires_at_s: float | None = None
    epoch: int = 0
    unclean_ends: int = 0
    results: int = 0
    dead_letters: int = 0
    outcome: Outcome | None = None
    finished_at_s: float | None = None

    @property
    def pending_records(self) -> int:
        """Records without a committed answer or dead letter."""
        return self.records - self.refused - self.results - self.dead_letters


def claimable(row: ShardRow, *, cancelled: bool, now_s: float) -> bool:
    """Say whether a worker may claim this shard: pending, or leased and expired, and the version not cancelled."""
    if cancelled:
        return False
    expired = row.state is ShardState.LEASED and row.expires_at_s is not None and row.expires_at_s <= now_s
    return row.state is ShardState.PENDING or expired


def claim(row: ShardRow, *, worker: str, ttl_s: float, now_s: float) -> tuple[ShardRow, Lease]:
    """Give a claimable shard to `worker` under the next epoch. An expired lease counts as an unclean end."""
    unclean = row.unclean_ends + (row.state is ShardState.LEASED)
    claimed = replace(
        row,
        state=ShardState.LEASED,
        worker=worker,
        expires_at_s=now_s + ttl_s,
        epoch=row.epoch + 1,
        unclean_ends=unclean,
    )
    return claimed, Lease(
        version=row.version,
        shard=row.shard,
        worker=worker,
        epoch=claimed.epoch,
        expires_at_s=now_s + ttl_s,
        unclean_ends=unclean,
    )


def check_live(row: ShardRow, lease: Lease) -> None:
    """Check that a lease is the live one of its row.

    Raises:
        LeaseLost: it is not.
    """
    if row.state is not ShardState.LEASED or row.epoch != lease.epoch:
        raise LeaseLost(
            f"{lease.worker} held shard {lease.shard} of {lease.version} under epoch {lease.epoch}; "
            f"it is {row.state} under epoch {row.epoch}"
        )


def renew(
    row: ShardRow, lease: Lease, *, results: int, dead_letters: int, cancelled: bool, ttl_s: float, now_s: float
) -> ShardRow:
    """Prolong a live lease and note what is committed so far.

    A lease that expired but was not claimed by anyone is still live: its epoch is.

    Raises:
        LeaseLost: the epoch is not the live one.
        ShardCancelled: it is, but the version was cancelled.
    """
    check_live(row, lease)
    if cancelled:
        raise ShardCancelled(f"version {lease.version} was cancelled")
    return replace(row, expires_at_s=now_s + ttl_s, results=results, dead_letters=dead_letters)


def absolve(row: ShardRow, lease: Lease) -> ShardRow:
    """Note that the suspects of earlier unclean ends are answered: the next unclean end is the first again.

    Raises:
        LeaseLost: the epoch is not the live one.
    """
    check_live(row, lease)
    return replace(row, unclean_ends=0)


def expire(row: ShardRow, *, worker: str, now_s: float) -> ShardRow:
    """End the lease of a worker that is known to be dead: claimable now, and an unclean end when it is claimed.

    A worker that lives after all is fenced like any other that overslept.
    """
    return replace(row, expires_at_s=now_s) if row.state is ShardState.LEASED and row.worker == worker else row


def release(
    row: ShardRow, lease: Lease, *, results: int, dead_letters: int, cancelled: bool, suspicious: bool = False
) -> ShardRow:
    """Give a live lease back: claimable at once, or cancelled if the version is.

    A clean end resets the suspicion, unless suspects of an earlier unclean end are still unanswered (`suspicious`).

    Raises:
        LeaseLost: the epoch is not the live one.
    """
    check_live(row, lease)
    state = ShardState.CANCELLED if cancelled else ShardState.PENDING
    return replace(
        row,
        state=state,
        worker=None,
        expires_at_s=None,
        unclean_ends=row.unclean_ends if suspicious else 0,
        results=results,
        dead_letters=dead_letters,
    )


def complete(row: ShardRow, lease: Lease, outcome: Outcome, *, now_s: float) -> ShardRow:
    """Finish a shard under its live epoch; the same outcome a second time is accepted (a lost answer).

    Raises:
        LeaseLost: the epoch is not the live one.
    """
    if row.state is ShardState.DONE and row.epoch == lease.epoch and row.outcome == outcome:
        return row
    check_live(row, lease)
    return replace(
        row,
        state=ShardState.DONE,
        worker=lease.worker,
        expires_at_s=None,
        results=outcome.results,
        dead_letters=outcome.dead_letters,
        outcome=outcome,
        finished_at_s=now_s,
    )


def replace_outcome(row: ShardRow, old: Outcome, new: Outcome) -> ShardRow:
    """Note that a finished shard's objects were rewritten; a row that is not done with `old` stays as it is."""
    if row.state is not ShardState.DONE or row.outcome != old:
        return row
    return replace(row, outcome=new, results=new.results, dead_letters=new.dead_letters)


def cancel(row: ShardRow) -> ShardRow:
    """Cancel a pending shard; a leased one is told at its next renewal, a done one stays done."""
    return replace(row, state=ShardState.CANCELLED) if row.state is ShardState.PENDING else row


def resume(row: ShardRow) -> ShardRow:
    """Make a cancelled shard claimable again; what it committed stays."""
    return replace(row, state=ShardState.PENDING) if row.state is ShardState.CANCELLED else row
