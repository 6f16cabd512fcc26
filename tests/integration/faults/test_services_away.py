"""The database and the store go away in the middle of a run, come back, or answer nonsense: workers wait, and go on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

import pytest

from tests.integration.faults.ending import conclude
from tests.integration.faults.hands import last_words
from tests.integration.faults.scene import Scene, messages
from tests.integration.faults.stacks import Stack
from tests.integration.faults.waiting import let_pass, until
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.postgres import PostgresServer
from tests.services.seaweedfs import SeaweedServer

SLOW = {"latency_s": 0.1}
RETRIED = "shard table: try 1 failed, trying again"


@pytest.mark.parametrize("down_s", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_the_database_is_stopped_and_started_again(
    cluster: Stack, postgres_server: PostgresServer, down_s: float
) -> None:
    """PostgreSQL is restarted under a run: every worker survives it with its lease, and nothing is asked twice."""
    with Scene(cluster, messages(160), shard_size=80) as scene:
        run = scene.run("run", SLOW, workers=2)
        until(lambda: all(row.results >= 20 for row in scene.rows), "both workers to have committed")
        postgres_server.stop()
        try:
            logs = list(scene.log_dir.iterdir())
            until(lambda: all(RETRIED in log.read_text() for log in logs), "both workers to notice")
            let_pass(down_s)
        finally:
            postgres_server.start()
        assert run.wait() == 0, run.log
        assert last_words(scene.log_dir) == [0, 0]
        assert [row.epoch for row in scene.rows] == [1, 1]
        conclude(scene, exits={"run": 0}, recomputed_max=0)


@pytest.mark.parametrize("down_s", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_the_store_is_killed_and_started_again(cluster: Stack, seaweed_server: SeaweedServer, down_s: float) -> None:
    """The S3 server loses its power in the middle of a shard: the worker's writes wait for it, and it goes on."""
    with Scene(cluster, messages(120)) as scene:
        worker = scene.worker("worker", SLOW)
        scene.until_committed(20)
        seaweed_server.stop()
        try:
            let_pass(down_s)
        finally:
            seaweed_server.start()
        assert worker.wait() == 0, worker.log
        assert scene.row.epoch == 1
        conclude(scene, exits={"worker": 0}, recomputed_max=0)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault.SLOW_DOWN], id="503", marks=pytest.mark.slow),
        pytest.param([Fault.CONFLICT], id="409", marks=pytest.mark.slow),
        pytest.param([Fault.DROP_BEFORE, Fault.DROP_AFTER], id="dropped", marks=pytest.mark.slow),
        pytest.param([fault for fault in Fault if fault not in {Fault.NONE, Fault.FORBIDDEN}], id="everything"),
    ],
)
def test_the_store_answers_nonsense(cluster: Stack, fault_proxy: FaultProxy, faults: Sequence[Fault]) -> None:
    """A busy bucket and a bad network: every second write fails, some after they have gone through. None is lost."""
    with Scene(cluster, messages(80)) as scene:
        queue = chain.from_iterable((fault, Fault.NONE) for fault in chain.from_iterable(repeat(faults, 12)))
        fault_proxy.fail(queue, methods=("PUT",))
        worker = scene.worker("worker", part_records_max=8, s3_endpoint_url=fault_proxy.endpoint_url)
        assert worker.wait() == 0, worker.log
        met = {fault for _, fault in fault_proxy.seen}
        assert met >= set(faults)
        assert scene.row.epoch == 1
        conclude(scene, exits={"worker": 0}, recomputed_max=0)
