"""What `run` does, step by step; finished work is never done again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from batch_assets.cli.child_output import child_output_to
from batch_assets.cli.exits import NotDone
from batch_assets.cli.one_at_a_time import alone
from batch_assets.cli.output import note, say
from batch_assets.cli.own_input import OwnInput
from batch_assets.cli.progress_line import ProgressLine
from batch_assets.cli.reading import readable, version_results
from batch_assets.cli.registering import register_job
from batch_assets.cli.summary import counts_line, show_results
from batch_assets.cli.targets import CURRENT, find_version, is_version
from batch_assets.cli.version_commands import counts_of, describe
from batch_assets.domain.errors import GateRefused, UnknownVersion, UserError
from batch_assets.domain.validation import refusals
from batch_assets.launch import Launcher, RunOutcome
from resources.flow import run_checks
from resources.platform import Platform
from resources.releases.log import ReleaseLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options of `run`."""

    target: str | None
    shards: tuple[int, ...] | None
    resume: bool
    publish: bool
    own: OwnInput


@dataclass(slots=True, kw_only=True)
class _Work:
    """One version on its way. `fresh`: its snapshot is the declared input's, and Dagster has not seen it yet."""

    platform: Platform
    job: str
    version: str
    fresh: bool = False
    run_id: str | None = None
    publish_run_id: str | None = None

    @property
    def is_current(self) -> bool:
        release = ReleaseLog(self.platform.store, self.job).current()
        return release is not None and release.version == self.version


def run_wish(wish: Wish) -> dict[str, Any]:
    """Do what was asked for, say it to people, and return it as plain JSON values.

    Raises:
        UserError: a name, an option, the input or the declaration is wrong, or the version is cancelled.
        NotDone: a run failed or was cancelled; the message has its reason.
        GateRefused: a check stands against publishing.
    """
    work = _resolve(wish)
    with alone(work.platform.settings.data_dir, work.version):
        return _run(work, wish)


def _run(work: _Work, wish: Wish) -> dict[str, Any]:
    _take_up(work, resume=wish.resume)
    before = counts_of(work.platform, work.version)
    _check_shards(wish.shards, before.shards_total, work.version)
    if before.done:
        say(f"Nothing to compute: all {before.records:,} records of {work.version} were settled before")
    if not (before.done and (work.is_current or not wish.publish)):
        _launch(work, wish)
    after = counts_of(work.platform, work.version)
    _conclude(work, answered=after.results - before.results)
    release = ReleaseLog(work.platform.store, work.job).current()
    return {
        **describe(work.job, after),
        "answered_now": after.results - before.results,
        "run_id": work.run_id,
        "publish_run_id": work.publish_run_id,
        "published": release.sequence if release and release.version == work.version else None,
        "results_uri": _results_uri(work),
    }


def _resolve(wish: Wish) -> _Work:
    platform = Platform.open()
    if is_version(wish.target) or wish.target == CURRENT:
        if wish.own.given:
            raise UserError("a version's input is fixed: --input and its like go with a job")
        job, version = find_version(platform, wish.target)
        return _Work(platform=platform, job=job, version=version)
    found = register_job(wish.target, wish.own, platform)
    fresh = found.registration.new and not wish.own.given
    return _Work(platform=platform, job=found.job, version=found.registration.version, fresh=fresh)


def _take_up(work: _Work, *, resume: bool) -> None:
    counts = counts_of(work.platform, work.version)
    if counts.cancelled and not counts.done and not resume:
        raise UserError(f"{work.version} was cancelled: --resume takes it up again, with what it has")
    if counts.cancelled and resume:
        work.platform.table.resume(work.version)


def _check_shards(shards: tuple[int, ...] | None, total: int, version: str) -> None:
    if shards is not None and (not shards or shards[-1] >= total):
        raise UnknownVersion(f"--shards: {version} has shards 0 to {total - 1}")


def _launch(work: _Work, wish: Wish) -> None:
    log = work.platform.settings.log_dir / f"dagster-{os.getpid()}.log"
    note(f"Starting Dagster ... (its output: {log})")
    with child_output_to(log), Launcher(work.platform, pinned=[work.version]) as launcher:
        if work.fresh:
            _check_ended(launcher.snapshot(work.job), "the snapshot's run")
        with ProgressLine(work.platform.clock) as line:
            outcome = launcher.run(work.job, work.version, wish.shards, on_line=line.show)
        work.run_id = outcome.run_id
        _check_ended(outcome, "the run")
        if wish.publish and not work.is_current:
            _publish(work, launcher)


def _publish(work: _Work, launcher: Launcher) -> None:
    counts = counts_of(work.platform, work.version)
    if not counts.done:
        say(f"Not published: {counts.shards_total - counts.shards_done} shard(s) are not done")
        return
    outcome = launcher.publish(work.job, work.version, on_line=note)
    work.publish_run_id = outcome.run_id
    # The verdict is made again from what is stored: a run's words are for people.
    if not outcome.succeeded and (found := refusals(run_checks(work.platform, work.version))):
        raise GateRefused(f"{work.job} {work.version} is not published: {'; '.join(found)}")
    _check_ended(outcome, "the publish run")


def _check_ended(outcome: RunOutcome, what: str) -> None:
    if outcome.cancelled:
        raise NotDone(f"{what} {outcome.run_id} was cancelled; what was committed stays, and the next run goes on")
    if not outcome.succeeded:
        raise NotDone(f"{what} {outcome.run_id} failed: {outcome.message}")


def _conclude(work: _Work, *, answered: int) -> None:
    counts = counts_of(work.platform, work.version)
    spec = work.platform.registry.read(work.job, work.version).spec
    say("")
    say(f"{work.job} {work.version}: {counts_line(counts)}; {answered:,} answered now")
    if counts.results:
        with readable():
            show_results(spec, version_results(work.platform, work.job, work.version, partial=not counts.done))
    say("")
    say(f"Parquet: {_results_uri(work)}")
    release = ReleaseLog(work.platform.store, work.job).current()
    if release is not None:
        word = "this version" if release.version == work.version else release.version
        say(f"current: release {release.sequence} reads {word} ({release.rows:,} rows)")


def _results_uri(work: _Work) -> str:
    return work.platform.store.uri(f"results/{work.job}/{work.version}")
