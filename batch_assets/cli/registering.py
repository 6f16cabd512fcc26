"""Registering a job's version from the command line, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from batch_assets.cli.output import note, say
from batch_assets.cli.own_input import OwnInput
from batch_assets.cli.targets import declared_spec
from resources.flow import Registration, take_and_register
from resources.grammar import require_grammar
from resources.platform import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A registered version, and everything that was said about its input."""

    job: str
    registration: Registration
    notes: tuple[str, ...]


def register_job(job: str | None, own: OwnInput, platform: Platform | None = None) -> Registered:
    """Take a snapshot of a job's input (or the user's own) and register its version.

    Raises:
        UserError: the declaration, the options or the input cannot work.
        ModelDigestMismatch: the model folder is not the pinned one.
    """
    spec, notes = declared_spec(job, own)
    platform = platform or Platform.open()
    require_grammar(spec, cache_dir=platform.settings.data_dir / "cache")
    done = take_and_register(platform, spec)
    found = Registered(job=spec.name, registration=done, notes=(*notes, *done.notes))
    for text in found.notes:
        note(f"note: {text}")
    word = "registered" if done.new else "stands already"
    say(
        f"{spec.name} {done.version} {word}: {done.plan.records:,} records in {len(done.plan.shards)} shard(s), "
        f"{done.plan.refused:,} refused at planning (dead letters)"
    )
    return found


def describe(found: Registered) -> dict[str, Any]:
    """Return a registration as plain JSON values."""
    done = found.registration
    return {
        "job": found.job,
        "version": done.version,
        "new": done.new,
        "snapshot": done.snapshot.name,
        "records": done.plan.records,
        "refused": done.plan.refused,
        "shards": len(done.plan.shards),
        "estimated_tokens": sum(shard.estimated_tokens for shard in done.plan.shards),
        "notes": list(found.notes),
    }
