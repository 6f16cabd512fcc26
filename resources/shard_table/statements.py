"""Every statement of the shard table. A state change is one conditional statement: no row back, nothing changed.

`live` is the fence: (version, shard, epoch, leased). What the statements decide is what `domain.lease` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Delete,
    Insert,
    Integer,
    Select,
    TextClause,
    Update,
    any_,
    case,
    cast,
    delete,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from batch_assets.domain.lease import Lease, Outcome, ShardState
from batch_assets.domain.plan import format_shards
from batch_assets.domain.ports import Beat
from resources.shard_table.clock import at
from resources.shard_table.tables import SHARD, TRIES, VERSION, WORKER

LEASE_COLUMNS = (SHARD.c.shard, SHARD.c.worker, SHARD.c.epoch, SHARD.c.expires_at_s, SHARD.c.unclean_ends)
# SQLite allows an expression a depth of 1,000.
RANGES_MAX = 100


def upsert(dialect: str, table: Any) -> Any:
    """Return the dialect's INSERT that knows ON CONFLICT; the two have the same methods and no common type."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def live(lease: Lease) -> ColumnElement[bool]:
    """Say whether the lease is the live one of its shard: what every state change asks."""
    return (
        (SHARD.c.version == lease.version)
        & (SHARD.c.shard == lease.shard)
        & (SHARD.c.epoch == lease.epoch)
        & (SHARD.c.state == ShardState.LEASED.value)
    )


def among(column: ColumnElement[int], numbers: Sequence[int], dialect: str) -> ColumnElement[bool]:
    """Return the condition that `column` is one of up to 100,000 numbers: as ranges, or as one array if these are many.

    A whole run of partitions is one range. SQLite binds at most 32,766 variables, so an array is one text.
    """
    ranges = format_shards(numbers).split(",")
    if len(ranges) <= RANGES_MAX:
        bounds = [piece.partition("-") for piece in ranges]
        return or_(*(column.between(int(low), int(high or low)) for low, _, high in bounds))
    listed = ",".join(str(number) for number in numbers)
    if dialect == "postgresql":
        return column == any_(cast(literal(f"{{{listed}}}"), ARRAY(Integer)))
    return column.in_(select(func.json_each(f"[{listed}]").table_valued("value").c.value))


def add_version(dialect: str, *, job: str, version: str, digest: str) -> Any:
    """Add a version; no row back: it stands. A second process waits here until the first has committed."""
    values = {"version": version, "job": job, "shards_digest": digest, "cancelled": False}
    return upsert(dialect, VERSION).values(values).on_conflict_do_nothing().returning(VERSION.c.version)


def after_registration(dialect: str) -> tuple[TextClause, ...]:
    """Tell PostgreSQL how many shards there are; until it knows, it plans each claim as a sort of all of them."""
    return (text(f"ANALYZE (SKIP_LOCKED) {SHARD.name}"),) if dialect == "postgresql" else ()


def claim(
    dialect: str,
    *,
    version: str,
    worker: str,
    token: str,
    ttl_s: float,
    shards: Sequence[int] | None,
    now_s: float | None,
) -> Update:
    """Give the lowest claimable shard to `worker`. PostgreSQL passes by what others are just claiming."""
    free = SHARD.alias("free")
    expired = (free.c.state == ShardState.LEASED.value) & (free.c.expires_at_s <= at(now_s))
    lowest = (
        select(free.c.shard)
        .where(
            free.c.version == version,
            free.c.state != literal_column("'done'"),  # in the words of the partial index, or it is not used
            free.c.version_cancelled == false(),
            or_(free.c.state == ShardState.PENDING.value, expired),
            among(free.c.shard, shards, dialect) if shards is not None else true(),
        )
        .order_by(free.c.shard)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    unclean = case((SHARD.c.state == ShardState.LEASED.value, 1), else_=0)
    return (
        update(SHARD)
        .where(SHARD.c.version == version, SHARD.c.shard == lowest.scalar_subquery())
        .values(
            state=ShardState.LEASED.value,
            worker=worker,
            claim_token=token,
            expires_at_s=at(now_s, ttl_s),
            epoch=SHARD.c.epoch + 1,
            unclean_ends=SHARD.c.unclean_ends + unclean,
        )
        .returning(*LEASE_COLUMNS)
    )


def claimed_under(version: str, token: str) -> Select[Any]:
    """Find the lease that a claim with a lost answer made."""
    return select(*LEASE_COLUMNS).where(
        SHARD.c.version == version,
        SHARD.c.state != literal_column("'done'"),
        SHARD.c.state == ShardState.LEASED.value,
        SHARD.c.claim_token == token,
    )


def renew(lease: Lease, *, results: int, dead_letters: int, ttl_s: float, now_s: float | None) -> Update:
    """Prolong a live lease of a version that is not cancelled; the new expiry comes back."""
    return (
        update(SHARD)
        .where(live(lease), SHARD.c.version_cancelled == false())
        .values(expires_at_s=at(now_s, ttl_s), results=results, dead_letters=dead_letters)
        .returning(SHARD.c.expires_at_s)
    )


def absolve(lease: Lease) -> Update:
    """Reset a live lease's unclean ends."""
    return update(SHARD).where(live(lease)).values(unclean_ends=0).returning(SHARD.c.shard)


def expire(version: str, worker: str, *, now_s: float | None) -> Update:
    """End a worker's leases now; the shards that it held come back."""
    held = (SHARD.c.version == version) & (SHARD.c.state == ShardState.LEASED.value) & (SHARD.c.worker == worker)
    # `done` in the words of the partial index: a version of 100,000 shards is not walked for a handful of leases.
    still_open = SHARD.c.state != literal_column("'done'")
    return update(SHARD).where(still_open, held).values(expires_at_s=at(now_s)).returning(SHARD.c.shard)


def release(lease: Lease, *, results: int, dead_letters: int, suspicious: bool) -> Update:
    """Give a live lease back: pending, or cancelled with its version."""
    given_back = case((SHARD.c.version_cancelled == true(), ShardState.CANCELLED.value), else_=ShardState.PENDING.value)
    return (
        update(SHARD)
        .where(live(lease))
        .values(
            state=given_back,
            worker=None,
            expires_at_s=None,
            results=results,
            dead_letters=dead_letters,
            **({} if suspicious else {"unclean_ends": 0}),
        )
        .returning(SHARD.c.shard)
    )


def complete(lease: Lease, outcome: Outcome, *, now_s: float | None) -> Update:
    """Finish a shard under its live epoch."""
    return (
        update(SHARD)
        .where(live(lease))
        .values(
            state=ShardState.DONE.value,
            worker=lease.worker,
            expires_at_s=None,
            finished_at_s=at(now_s),
            **asdict(outcome),
        )
        .returning(SHARD.c.shard)
    )


def set_cancelled(version: str, *, cancelled: bool) -> tuple[Update, Update]:
    """Cancel or resume: the version first, whose row lock keeps two of these apart, then its unfinished shards."""
    before, after = ShardState.PENDING.value, ShardState.CANCELLED.value
    if not cancelled:
        before, after = after, before
    return (
        update(VERSION).where(VERSION.c.version == version).values(cancelled=cancelled),
        update(SHARD)
        .where(SHARD.c.version == version, SHARD.c.state != literal_column("'done'"))
        .values(version_cancelled=cancelled, state=case((SHARD.c.state == before, after), else_=SHARD.c.state)),
    )


def replace_outcome(version: str, shard: int, old: Outcome, new: Outcome) -> Update:
    """Put a finished shard's new objects and counts where the old ones stand."""
    return (
        update(SHARD)
        .where(
            SHARD.c.version == version,
            SHARD.c.shard == shard,
            SHARD.c.state == ShardState.DONE.value,
            *(SHARD.c[name].is_not_distinct_from(value) for name, value in asdict(old).items()),
        )
        .values(**asdict(new))
    )


def hold_version(version: str) -> Select[Any]:
    """Find a version and, on PostgreSQL, hold off a cancel and a registration until this transaction ends."""
    return select(VERSION.c.version).where(VERSION.c.version == version).with_for_update()


def hold_open_shards(version: str, *, now_s: float | None) -> Select[Any]:
    """Say of each unfinished shard whether a live lease holds it, and keep claims off until this transaction ends."""
    leased = (SHARD.c.state == ShardState.LEASED.value) & (SHARD.c.expires_at_s > at(now_s))
    still_open = SHARD.c.state != literal_column("'done'")
    return select(func.coalesce(leased, false())).where(SHARD.c.version == version, still_open).with_for_update()


def beats_since(version: str, *, idle_s: float, now_s: float | None) -> Select[Any]:
    """Find a worker that beat for a version in the last `idle_s` seconds."""
    return select(WORKER.c.worker).where(WORKER.c.version == version, WORKER.c.beat_at_s > at(now_s, -idle_s)).limit(1)


def remove(version: str) -> tuple[Delete, ...]:
    """Forget a version: its tries, shards and itself."""
    return tuple(delete(table).where(table.c.version == version) for table in (TRIES, SHARD, VERSION))


def shard_row(version: str, shard: int) -> Select[Any]:
    """One row."""
    return select(SHARD).where(SHARD.c.version == version, SHARD.c.shard == shard)


def counts(version: str) -> Select[Any]:
    """A version's totals, in one pass over its shards; no row if there is no such version."""

    def total(column: ColumnElement[int], label: str) -> ColumnElement[Any]:
        return func.coalesce(func.sum(column), 0).label(label)

    def in_state(state: ShardState) -> ColumnElement[int]:
        return case((SHARD.c.state == state.value, 1), else_=0)

    return (
        select(
            VERSION.c.version,
            VERSION.c.cancelled,
            func.count(SHARD.c.shard).label("shards_total"),
            total(in_state(ShardState.DONE), "shards_done"),
            total(in_state(ShardState.LEASED), "shards_leased"),
            total(SHARD.c.records, "records"),
            total(SHARD.c.results, "results"),
            total(SHARD.c.dead_letters + SHARD.c.refused, "dead_letters"),
            total(SHARD.c.prompt_tokens, "prompt_tokens"),
            total(SHARD.c.cached_tokens, "cached_tokens"),
            total(SHARD.c.output_tokens, "output_tokens"),
        )
        .select_from(VERSION.outerjoin(SHARD, SHARD.c.version == VERSION.c.version))
        .where(VERSION.c.version == version)
        .group_by(VERSION.c.version, VERSION.c.cancelled)
    )


def hold(lease: Lease) -> Select[Any]:
    """Find a live lease and, on PostgreSQL, hold off a claim until this transaction ends."""
    return select(SHARD.c.shard).where(live(lease)).with_for_update(read=True)


def charge(dialect: str) -> Any:
    """Keep records' failed tries, one row each; what the next owner reads is final, as the lease is held (`hold`)."""
    added = upsert(dialect, TRIES)
    return added.on_conflict_do_update(
        index_elements=["version", "shard", "row"],
        set_={name: added.excluded[name] for name in ("own", "infrastructure", "failure")},
    )


def beat(dialect: str, beat: Beat, *, now_s: float | None) -> Insert:
    """Keep a worker's last beat."""
    added = upsert(dialect, WORKER).values({**asdict(beat), "beat_at_s": at(now_s)})
    kept: Insert = added.on_conflict_do_update(
        index_elements=["worker"],
        set_={column.name: added.excluded[column.name] for column in WORKER.c if column.name != "worker"},
    )
    return kept
