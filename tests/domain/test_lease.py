"""The state machine that domain/lease.py draws, walked through its code."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain import lease as machine
from batch_assets.domain.errors import LeaseLost, ShardCancelled
from batch_assets.domain.lease import Lease, Outcome, ShardRow, ShardState

PENDING, LEASED, DONE, CANCELLED = ShardState
TTL_S, T0 = 600.0, 1_000.0
EPOCH = 3
OUTCOME = Outcome(results=8, dead_letters=1, result_key="k", result_digest="d")
LEASE = Lease(version="v", shard=0, worker="w", epoch=EPOCH, expires_at_s=T0 + TTL_S)


def row_in(state: ShardState) -> ShardRow:
    base = ShardRow(version="v", shard=0, records=10, refused=1, estimated_tokens=100, epoch=EPOCH, unclean_ends=1)
    if state is LEASED:
        return replace(base, state=state, worker="w", expires_at_s=T0 + TTL_S)
    return replace(base, state=state, outcome=OUTCOME if state is DONE else None)


Event = Callable[[ShardRow], ShardRow]


def claim_at(now_s: float, *, cancelled: bool = False) -> Event:
    def event(row: ShardRow) -> ShardRow:
        if not machine.claimable(row, cancelled=cancelled, now_s=now_s):
            return row
        return machine.claim(row, worker="w2", ttl_s=TTL_S, now_s=now_s)[0]

    return event


def renew(lease: Lease, *, cancelled: bool = False) -> Event:
    return lambda row: machine.renew(
        row, lease, results=2, dead_letters=1, cancelled=cancelled, ttl_s=TTL_S, now_s=T0 + 30
    )


def release(lease: Lease, *, cancelled: bool = False) -> Event:
    return lambda row: machine.release(row, lease, results=2, dead_letters=1, cancelled=cancelled)


def complete(lease: Lease) -> Event:
    return lambda row: machine.complete(row, lease, OUTCOME, now_s=T0 + 60)


EVENTS: dict[str, Event] = {
    "claim": claim_at(T0),
    "claim after expiry": claim_at(T0 + TTL_S),
    "claim, version cancelled": claim_at(T0 + TTL_S, cancelled=True),
    "renew": renew(LEASE),
    "renew, version cancelled": renew(LEASE, cancelled=True),
    "release": release(LEASE),
    "release, version cancelled": release(LEASE, cancelled=True),
    "complete": complete(LEASE),
    "cancel version": machine.cancel,
    "resume version": machine.resume,
}

# The arrows: (from, event) -> to. What is not here leaves the state, or is refused as REFUSED says.
ARROWS = {
    (PENDING, "claim"): LEASED,
    (PENDING, "claim after expiry"): LEASED,
    (LEASED, "claim after expiry"): LEASED,
    (LEASED, "complete"): DONE,
    (LEASED, "release"): PENDING,
    (LEASED, "release, version cancelled"): CANCELLED,
    (PENDING, "cancel version"): CANCELLED,
    (CANCELLED, "resume version"): PENDING,
}
FENCED = ("renew", "renew, version cancelled", "release", "release, version cancelled", "complete")
REFUSED: dict[tuple[ShardState, str], type[LeaseLost]] = {
    **{(state, event): LeaseLost for state in (PENDING, DONE, CANCELLED) for event in FENCED},
    (LEASED, "renew, version cancelled"): ShardCancelled,
}
del REFUSED[DONE, "complete"]  # the same outcome a second time: a lost answer


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", ShardState)
def test_every_event_in_every_state(state: ShardState, event: str) -> None:
    """Each pair follows its arrow, is refused by its error's very type, or leaves the state."""
    row = row_in(state)
    refusal = REFUSED.get((state, event))
    if refusal:
        with pytest.raises(LeaseLost) as raised:
            EVENTS[event](row)
        assert type(raised.value) is refusal
    else:
        assert EVENTS[event](row).state is ARROWS.get((state, event), state)


def test_the_drawing_has_these_arrows_and_no_others() -> None:
    """The words on the drawing's arrows are the events above (expiry is what lets a claim take a leased shard)."""
    drawing = str(machine.__doc__).split("\n\n")[1]
    drawn = set(re.findall(r"claim|complete|release|expiry|cancel version|resume version|version cancelled", drawing))
    words = {"claim", "complete", "release", "cancel version", "resume version", "version cancelled"}
    walked = {word for _, event in ARROWS for word in words if word in event}
    assert drawn == walked | {"expiry"}
    assert {state.value for state in ShardState} <= set(re.findall(r"\w+", drawing))
    assert "pending --claim--> leased --complete--> done" in drawing


@pytest.mark.parametrize("event", FENCED)
@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
@pytest.mark.parametrize("state", ShardState)
def test_another_epoch_changes_nothing_in_any_state(state: ShardState, epoch: int, event: str) -> None:
    """The fence: an older epoch (a worker that woke late) and one that was never given out are both lost."""
    other = replace(LEASE, epoch=epoch)
    change = {
        "renew": renew(other),
        "renew, version cancelled": renew(other, cancelled=True),
        "release": release(other),
        "release, version cancelled": release(other, cancelled=True),
        "complete": complete(other),
    }[event]
    with pytest.raises(LeaseLost) as raised:
        change(row_in(state))
    assert type(raised.value) is LeaseLost


def test_another_outcome_of_a_done_shard_is_refused() -> None:
    """Done is final: only the very same outcome is taken for the lost answer."""
    with pytest.raises(LeaseLost):
        machine.complete(row_in(DONE), LEASE, replace(OUTCOME, result_digest="other"), now_s=T0)


def test_an_expiry_is_an_unclean_end_and_a_release_is_not() -> None:
    """Suspicion grows with each lease that expired, and a clean end resets it."""
    row, lease = machine.claim(row_in(LEASED), worker="w2", ttl_s=TTL_S, now_s=T0 + TTL_S)
    assert (row.unclean_ends, lease.unclean_ends, lease.epoch) == (2, 2, EPOCH + 1)
    row = machine.release(row, lease, results=0, dead_letters=0, cancelled=False)
    row, lease = machine.claim(row, worker="w3", ttl_s=TTL_S, now_s=T0 + TTL_S)
    assert (row.unclean_ends, lease.unclean_ends, lease.epoch) == (0, 0, EPOCH + 2)


def test_a_lease_ends_at_its_expiry_not_after_it() -> None:
    """The instant `expires_at_s` belongs to the next owner."""
    row = row_in(LEASED)
    assert not machine.claimable(row, cancelled=False, now_s=T0 + TTL_S - 1e-6)
    assert machine.claimable(row, cancelled=False, now_s=T0 + TTL_S)


def test_a_lease_that_expired_unclaimed_goes_on() -> None:
    """Renewal asks for the epoch, not for the time."""
    row = renew(LEASE)(replace(row_in(LEASED), expires_at_s=0.0))
    assert (row.state, row.expires_at_s, row.results, row.dead_letters) == (LEASED, T0 + 30 + TTL_S, 2, 1)


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=30))
def test_whatever_happens_done_is_final_and_epochs_only_rise(events: list[str]) -> None:
    """Over any sequence of events: an epoch rises by one at a claim and never else; done stays; counts add up."""
    row = replace(row_in(PENDING), epoch=EPOCH - 1)
    for event in events:
        before = row
        try:
            row = EVENTS[event](row)
        except LeaseLost:
            continue
        claimed = event.startswith("claim") and row != before
        assert row.epoch == before.epoch + claimed
        assert before.state is not DONE or row == before
        assert (row.state is LEASED) == (row.expires_at_s is not None)
        assert (row.state is DONE) == (row.outcome is not None) == (row.finished_at_s is not None)
        assert row.records == row.refused + row.results + row.dead_letters + row.pending_records
