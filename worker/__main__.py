"""`python -m worker`: the composition root of a worker process.

Exit codes: 0 nothing left to claim, 75 interrupted or recycled, 42 permanent (the reason is the last line), 1 anything
else (a store or database that stayed away longer than the retries last).
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from batch_assets.domain.errors import BatchError, Permanent, UserError
from batch_assets.domain.plan import parse_shards
from resources.clock import SystemClock
from resources.memory import resident_mb
from resources.platform import Platform
from resources.prompting.renderer import open_renderer
from worker.answers import AnswerReader
from worker.commits import Committer
from worker.drain import StopSignal, listen
from worker.engine.build import build_engine
from worker.heartbeat import Heartbeat
from worker.keeper import EngineKeeper
from worker.loop import Assignment, Exit, Limits, Tools, Worker
from worker.notice import NoticeWatcher, open_notice
from worker.opening import ShardOpener
from worker.successor import Successor
from worker.watchdog import Watchdog

log = logging.getLogger("worker")

IN_FLIGHT_SHARE = 1.25  # of max_num_seqs: enough to keep the engine full, little to lose or to drain (measured)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one worker and return its exit code."""
    arguments = _parse(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stdout, force=True
    )
    clock = SystemClock()
    try:
        platform = Platform.open()
        stop = StopSignal(clock, platform.settings.drain_s)
        listen(stop, arguments.parent)
        notice = open_notice(platform.settings.notice, platform.settings.notice_url)
        if notice is not None:
            NoticeWatcher(notice, stop, interval_s=platform.settings.notice_interval_s).start()
        code = _work(arguments, platform, stop)
    except (Permanent, UserError) as error:
        # A reason, not a traceback, and the last line: whoever started this worker shows it.
        log.error("permanent: %s", error)  # noqa: TRY400
        return Exit.PERMANENT.value
    except BatchError:
        log.exception("the worker cannot go on")
        return 1
    log.info("exit %d", code)
    return code.value


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m worker", description="Work on the shards of one job version.")
    parser.add_argument("--version", required=True, help="job version, e.g. v-3f2a9c1b0d4e")
    parser.add_argument("--worker", required=True, help="this worker's name, in every result it makes")
    parser.add_argument("--shards", type=parse_shards, help="shards to claim, e.g. 0-3,7 (default: all)")
    parser.add_argument("--parent", type=int, help="pid of the process whose death ends this worker")
    return parser.parse_args(argv)


def _work(arguments: argparse.Namespace, platform: Platform, stop: StopSignal) -> Exit:
    settings = platform.settings
    job = platform.registry.find(arguments.version)
    entry = platform.registry.read(job, arguments.version)
    spec = entry.spec
    folder = settings.model_folder(spec.model)
    opener = ShardOpener(platform, entry, open_renderer(spec, folder))
    keeper = EngineKeeper(
        lambda: build_engine(spec, folder, fake_faults=settings.fake_faults),
        restarts_max=settings.engine_restarts_max,
        token_limit=lambda prepared: (
            (spec.decoding.max_tokens_retry if prepared.larger else None) or spec.decoding.max_tokens
        ),
    )
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit") as executor:
        committer = Committer(platform.store, platform.table, spec, executor, lease_ttl_s=settings.lease_ttl_s)
        window = int(spec.model.max_num_seqs * IN_FLIGHT_SHARE)
        successor = Successor(
            platform.table, committer, keeper, window=window, part_records_max=settings.part_records_max
        )
        worker = Worker(
            Assignment(worker=arguments.worker, version=arguments.version, spec=spec, shards=arguments.shards),
            Tools(
                table=platform.table,
                open_shard=opener.open,
                answers=AnswerReader(spec, arguments.version, entry.snapshot),
                committer=committer,
                keeper=keeper,
                successor=successor,
                clock=platform.clock,
                stop=stop,
                memory_mb=resident_mb,
            ),
            Limits(
                window=window,
                part_records_max=settings.part_records_max,
                part_interval_s=settings.part_interval_s,
                lease_ttl_s=settings.lease_ttl_s,
                memory_mb_max=settings.worker_memory_mb_max,
            ),
        )
        heartbeat = Heartbeat(
            platform.table,
            lambda: worker.open_shards,
            worker.beat,
            clock=platform.clock,
            ttl_s=settings.lease_ttl_s,
            interval_s=settings.heartbeat_interval_s,
        )
        watchdog = Watchdog(lambda: keeper.pulse, clock=platform.clock, stall_s=settings.engine_stall_s)
        heartbeat.start()
        watchdog.start()
        try:
            return worker.run()
        finally:
            heartbeat.stop()
            watchdog.stop()
            keeper.close()


if __name__ == "__main__":
    sys.exit(main())
