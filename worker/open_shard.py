"""One shard while a worker holds it: what is still to ask, what is in flight, what waits for a commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from batch_assets.domain.attempt import EngineCrash, InvalidText, RecordFailure, Tries
from batch_assets.domain.lease import Lease
from batch_assets.domain.plan import Shard
from resources.prompting.renderer import Renderer
from resources.results.staging import PartWriter
from resources.snapshots.read import SourceRow

LOOKAHEAD = 64  # records tokenized at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A record ready to be asked. `larger` asks under the job's larger token limit."""

    row: SourceRow
    prompt_token_ids: list[int]
    larger: bool = False


@dataclass(slots=True)
class Suspicion:
    """After an unclean end: the first `left` records that are asked may have killed a worker; `group` go at once."""

    left: int
    group: int


@dataclass(slots=True)
class Buffer:
    """Rows that wait for a commit; `since_s` is when the oldest came."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    since_s: float = 0.0

    def add(self, row: dict[str, Any], now_s: float) -> None:
        """Add a row."""
        if not self.rows:
            self.since_s = now_s
        self.rows.append(row)

    def due(self, *, records_max: int, interval_s: float, now_s: float) -> bool:
        """Say whether the rows should be committed now."""
        return len(self.rows) >= records_max or (bool(self.rows) and now_s - self.since_s >= interval_s)

    def take(self) -> list[dict[str, Any]]:
        """Return the rows and start anew."""
        rows, self.rows = self.rows, []
        return rows


class OpenShard:
    """See the module's docstring. All of it belongs to the worker's main thread, but for the committed counts."""

    def __init__(
        self,
        lease: Lease,
        shard: Shard,
        rows: Iterable[SourceRow],
        renderer: Renderer,
        field_names: tuple[str, ...],
        writer: PartWriter,
        accepted: tuple[str, ...],
        tries: dict[int, Tries],
    ) -> None:
        self.lease = lease
        self.shard = shard
        self.writer = writer
        self.accepted = accepted
        self.results = Buffer()
        self.dead = Buffer()
        self.committed_results = 0
        self.committed_dead = 0
        self.in_flight: dict[str, Prepared] = {}
        self.finishing = False
        self.lost = ""
        self.cancelled = False
        self.suspicion: Suspicion | None = None
        self.charged_ahead: dict[int, Tries] = {}
        self._tries = tries
        self._renderer = renderer
        self._field_names = field_names
        # Longest first: a straggler at the end of a run would leave the engine half empty. Stable, so the order is
        # the same for every owner: who comes next knows what its predecessor had in flight.
        self._unread = deque(sorted(rows, key=lambda row: -len(row.text).bit_length()))
        self._ready: deque[Prepared] = deque()
        self.unrenderable: list[tuple[SourceRow, RecordFailure]] = []

    @property
    def number(self) -> int:
        """The shard's number."""
        return self.shard.index

    def request_id(self, row: int) -> str:
        """Return the engine's name for a record of this lease."""
        return f"{self.number}/{self.lease.epoch}/{row}"

    def next(self) -> Prepared | None:
        """Return the next record to ask, or None if none is left to ask for the first time."""
        if not self._ready:
            self._refill()
        return self._ready.popleft() if self._ready else None

    def witness(self, turn: int) -> Prepared | None:
        """Take out a record that is no suspect from the far end, another one at each turn; None if there is none."""
        suspects = self.suspicion.left if self.suspicion else 0
        while (unsuspected := len(self._unread) - max(0, suspects - len(self._ready))) > 0:
            place = -1 - turn % unsuspected
            row = self._unread[place]
            del self._unread[place]
            if prepared := self._prepare([row]):
                return prepared[0]
        return None

    def take_condemned(self, attempts_max: int) -> list[SourceRow]:
        """Take out the records that killed a worker as often as is borne; nobody was left to bury them."""
        killers = {
            row for row, tries in self._tries.items() if tries.own >= attempts_max and tries.failure == EngineCrash.name
        }
        found = [row for row in self._unread if row.row in killers] if killers else []
        if found:
            self._unread = deque(row for row in self._unread if row.row not in killers)
        return found

    def again(self, prepared: Prepared, *, larger: bool = False) -> None:
        """Ask a record again, before new ones."""
        self._ready.appendleft(replace(prepared, larger=prepared.larger or larger))

    @property
    def has_more(self) -> bool:
        """Whether a record waits to be asked."""
        if not self._ready:
            self._refill()
        return bool(self._ready)

    @property
    def settled(self) -> bool:
        """Whether every record has an answer or a dead letter, committed or in a buffer."""
        return not self.in_flight and not self.has_more and not self.unrenderable

    def tries(self, row: int) -> Tries:
        """Return a record's failed tries so far."""
        return self._tries.get(row, Tries())

    def charged(self, tries: Mapping[int, Tries]) -> None:
        """Note records' failed tries."""
        self._tries.update(tries)

    def charge_ahead(self, row: int, tries: Tries) -> None:
        """Note a try before it is made, should nobody be left to note it afterwards."""
        self.charged_ahead[row] = self.tries(row)
        self._tries[row] = tries

    def tries_before(self, row: int) -> Tries:
        """Return a record's failed tries without one that was charged ahead, which is forgotten: it has ended."""
        return self.charged_ahead.pop(row, None) or self.tries(row)

    def _refill(self) -> None:
        while not self._ready and self._unread:
            rows = [self._unread.popleft() for _ in range(min(LOOKAHEAD, len(self._unread)))]
            self._ready.extend(self._prepare(rows))

    def _prepare(self, rows: list[SourceRow]) -> list[Prepared]:
        try:
            prompts = self._renderer.render([self._fields(row) for row in rows])
        except (TypeError, ValueError, UnicodeError) as error:
            if len(rows) == 1:
                self.unrenderable.append((rows[0], InvalidText(f"cannot be tokenized: {error}")))
                return []
            return [prepared for row in rows for prepared in self._prepare([row])]
        return [Prepared(row=row, prompt_token_ids=ids) for row, ids in zip(rows, prompts, strict=True)]

    def _fields(self, row: SourceRow) -> dict[str, str]:
        return dict(zip(self._field_names, (row.text, *(value or "" for value in row.carry)), strict=True))
