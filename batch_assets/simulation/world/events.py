"""What happens in a world, as checkers see it: each event is told at the moment its effect stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batch_assets.domain.attempt import Tries
from batch_assets.domain.lease import Lease, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, at `at_s` seconds of the world, by a process (or the world itself)."""

    at_s: float
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStands(Event):
    """A part was put; `rows` is what its bytes hold."""

    key: str
    shard: int
    epoch: int
    dead: bool
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStands(Event):
    """A lease fenced its shard and accepted these parts."""

    shard: int
    epoch: int
    accepted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(Event):
    """The shard table granted a lease."""

    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed(Event):
    """The shard table prolonged a lease, which says so many records are committed."""

    lease: Lease
    results: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Event):
    """The shard table took a lease back."""

    lease: Lease
    results: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(Event):
    """The shard table took a shard as finished."""

    lease: Lease
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Event):
    """The shard table refused a call because the lease that it named is not live."""

    lease: Lease
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged(Event):
    """The shard table keeps a record's failed tries."""

    lease: Lease
    row: int
    tries: Tries


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """An engine gave an answer to the worker; `text` is what the model said."""

    shard: int
    row: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted(Event):
    """A process built an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDied(Event):
    """An engine died; `marked` if a record killed it."""

    marked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(Event):
    """A worker process started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded(Event):
    """A worker process ended: killed, an exit code, or an error's name."""

    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck(Event):
    """The world did something to a process, the store, the table or the version; `what` says it."""

    what: str


def tell(event: Event) -> str:
    """Return an event as one line of a trace."""
    fields = {
        name: getattr(event, name) for name in event.__dataclass_fields__ if name not in {"at_s", "process", "rows"}
    }
    if isinstance(event, PartStands):
        fields |= {"rows": sorted(row["row"] for row in event.rows)}
    shown = " ".join(f"{name}={_short(value)}" for name, value in fields.items())
    return f"{event.at_s:9.2f} {event.process:<6} {type(event).__name__:<14} {shown}"


def _short(value: object) -> str:
    if isinstance(value, Lease):
        return f"{value.worker}/{value.shard}/{value.epoch}"
    if isinstance(value, Outcome):
        return f"{value.results}+{value.dead_letters}"
    if isinstance(value, tuple) and value and all(isinstance(item, str) and "/" in item for item in value):
        return ",".join("/".join(item.split("/")[-2:]) for item in value)
    text = str(value)
    return text if len(text) <= 90 else text[:87] + "..."  # noqa: PLR2004 - a line of a terminal
