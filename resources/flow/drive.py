"""Drive: local workers over a version's shards, watched to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from batch_assets.domain.errors import ShardCancelled, UnknownVersion
from batch_assets.domain.lease import ShardRow, ShardState
from batch_assets.domain.progress import Progress, ProgressMeter
from resources.fleet.local import LocalFleet
from resources.platform import Platform

WAKE_PAUSE_S = 5.0
STOP_RESERVE_S = 5.0  # beyond the drain budget, before a worker is killed


def drive(
    platform: Platform,
    version: str,
    shards: Sequence[int] | None,
    *,
    on_done: Callable[[ShardRow], None],
    on_tick: Callable[[Progress], None],
) -> list[ShardRow]:
    """Run local workers until the given shards (None: all) are done, and return their rows.

    `on_done` is called once for each finished shard, at once for those that were finished before: a second run
    recomputes nothing, and a run whose predecessor died before it could report gets the reports. Whatever ends this
    call (a cancelled run raises a BaseException) stops the workers, which release their leases.

    Raises:
        Permanent: the workers cannot go on; the message has the end of a worker's log.
        ShardCancelled: the version was cancelled meanwhile.
    """
    settings, clock = platform.settings, platform.clock
    watch = _Watch(platform, version, shards)
    meter = ProgressMeter(
        total=sum(row.records for row in watch.rows), shards_total=len(watch.rows), started_s=clock.monotonic_s()
    )
    fleet = LocalFleet(
        version=version,
        shards=shards,
        workers=min(settings.workers, max(1, len(watch.rows))),
        log_dir=settings.log_dir,
        clock=clock,
        environment=settings.environment(),
        deaths_max=settings.engine_restarts_max,
        # A worker that was waited for is dead: nobody needs to wait for its leases to expire.
        on_end=lambda worker: platform.table.expire(version, worker),
    )
    reported: set[int] = set()
    woken_s = clock.monotonic_s()
    try:
        while True:
            done = [row for row in watch.rows if row.state is ShardState.DONE]
            for row in done:
                if row.shard not in reported:
                    reported.add(row.shard)
                    on_done(row)
            on_tick(meter.look(done=watch.settled, shards_done=len(done), now_s=clock.monotonic_s()))
            if len(done) == len(watch.rows):
                return watch.rows
            if watch.cancelled:
                raise ShardCancelled(f"{version} was cancelled; `batch-assets run {version} --resume` goes on with it")
            fleet.tend(watch.answered)
            if fleet.has_idle and clock.monotonic_s() - woken_s > WAKE_PAUSE_S:
                woken_s = clock.monotonic_s()
                if _claimable(watch.refresh(), clock.wall_s()):
                    fleet.wake()
            clock.sleep(settings.poll_interval_s)
            watch.look()
    finally:
        fleet.stop(settings.drain_s + STOP_RESERVE_S)


class _Watch:
    """The shards of a run as the table has them. All rows are read only when a shard's state can have changed."""

    def __init__(self, platform: Platform, version: str, shards: Sequence[int] | None) -> None:
        self._table = platform.table
        self._version = version
        self._chosen = None if shards is None else frozenset(shards)
        self._shards_done = -1
        self.rows: list[ShardRow] = []
        self.settled = 0
        self.answered = 0
        self.cancelled = False
        self.refresh()

    def refresh(self) -> list[ShardRow]:
        """Read the rows."""
        rows = self._table.shards(self._version)
        self.rows = rows if self._chosen is None else [row for row in rows if row.shard in self._chosen]
        self.settled = sum(row.records - row.pending_records for row in self.rows)
        self.answered = sum(row.results for row in self.rows)
        return self.rows

    def look(self) -> None:
        """Read the counts, and the rows if a shard was finished or only some shards are of interest."""
        counts = self._table.counts(self._version)
        if counts is None:
            raise UnknownVersion(f"version {self._version} is not in the shard table")
        self.cancelled = counts.cancelled
        if self._chosen is not None or counts.shards_done != self._shards_done:
            self.refresh()
            self._shards_done = counts.shards_done
        else:
            self.settled = counts.records - counts.pending
            self.answered = counts.results


def _claimable(rows: Sequence[ShardRow], wall_s: float) -> bool:
    """Say whether an idle worker would find something; only a hint, so this machine's clock is good enough."""
    return any(
        row.state is ShardState.PENDING
        or (row.state is ShardState.LEASED and row.expires_at_s is not None and row.expires_at_s <= wall_s)
        for row in rows
    )
