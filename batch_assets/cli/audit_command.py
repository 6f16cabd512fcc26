"""`audit`: does what is stored add up, and does the shard table agree?"""

from __future__ import annotations

from batch_assets.cli import options
from batch_assets.cli.exits import NotDone
from batch_assets.cli.output import emit, say
from batch_assets.cli.targets import find_version
from resources.platform import Platform


def audit(version: options.VersionArgument = None, *, json: options.JsonOption = False) -> None:
    """Recount a version from its stored objects and compare with the shard table; exit 1 if anything disagrees."""
    from resources.results.audit import audit_version

    platform = Platform.open()
    job, name = find_version(platform, version)
    registry = platform.registry
    found = audit_version(
        platform.store,
        job,
        registry.plan(job, name),
        registry.refused_key(job, name),
        platform.table.shards(name),
    )
    if json:
        emit(
            {
                "job": job,
                "version": found.version,
                "records": found.records,
                "results": found.results,
                "dead_letters": found.dead_letters,
                "pending": found.pending,
                "duplicate_keys": found.duplicate_keys,
                "disagreements": list(found.disagreements),
            }
        )
    say(
        f"{job} {name}: {found.records:,} records = {found.results:,} results + {found.dead_letters:,} dead letters "
        f"+ {found.pending:,} pending, counted from storage"
    )
    for sentence in found.disagreements:
        say(f"  {sentence}")
    if not found.clean:
        raise NotDone(f"{len(found.disagreements)} disagreements, {found.duplicate_keys} duplicate record ids")


COMMANDS = (audit,)
