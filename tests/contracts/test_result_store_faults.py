"""S3 that misbehaves: whatever it does to a PUT, the end is right, or an error that says it is not known."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batch_assets.domain.errors import ObjectConflict, ObjectMissing, StoreUnavailable
from resources.result_store.store import ObstoreResultStore, open_result_store
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.seaweedfs import SECRET_KEY, SeaweedServer

PASSING = [fault for fault in Fault if fault is not Fault.FORBIDDEN]
LOST = {Fault.ERROR_AFTER, Fault.DROP_AFTER}  # the object stands, but its writer does not learn it


@pytest.fixture
def shaky(seaweed_server: SeaweedServer, fault_proxy: FaultProxy, s3_uri: str) -> ObstoreResultStore:
    """An empty store whose requests pass the proxy."""
    return open_result_store(s3_uri, seaweed_server.config(fault_proxy.endpoint_url), retry_for_s=20)


@pytest.mark.parametrize(
    ("faults", "written"),
    [
        ([Fault.SLOW_DOWN] * 4, True),
        ([Fault.CONFLICT] * 3, True),
        ([Fault.DROP_BEFORE] * 3, True),
        ([Fault.DROP_AFTER], False),
        ([Fault.ERROR_AFTER], False),
        ([Fault.DROP_AFTER, Fault.CONFLICT], False),
        ([Fault.SLOW_DOWN, Fault.DROP_BEFORE, Fault.CONFLICT, Fault.DROP_AFTER, Fault.SLOW_DOWN], False),
    ],
)
def test_a_put_ends_right(
    shaky: ObstoreResultStore,
    s3_store: ObstoreResultStore,
    fault_proxy: FaultProxy,
    faults: Sequence[Fault],
    written: bool,  # noqa: FBT001
) -> None:
    """Slow-down, 409 and resets are tried again; after a lost answer the 412 is recognized as our own object's."""
    fault_proxy.fail(faults)
    assert shaky.put_if_absent("part", b"rows") is written
    assert s3_store.get("part") == b"rows"
    assert s3_store.list("") == shaky.list("")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(faults=st.lists(st.sampled_from(PASSING), max_size=3), number=st.uuids())
def test_any_order_of_faults_ends_right(
    shaky: ObstoreResultStore,
    s3_store: ObstoreResultStore,
    fault_proxy: FaultProxy,
    faults: list[Fault],
    number: object,
) -> None:
    """The bytes stand once; True is said exactly when no earlier try of ours had written them unnoticed."""
    fault_proxy.fail(faults)
    written = shaky.put_if_absent(f"part-{number}", b"rows")
    assert s3_store.get(f"part-{number}") == b"rows"
    puts = [fault for method, fault in fault_proxy.seen if method == "PUT"]
    # A 409 while our own bytes stand ends the tries as well: what stands is compared.
    assert written is not any(fault in LOST for fault in puts)


def test_a_lost_answer_never_hides_a_conflict(
    shaky: ObstoreResultStore, s3_store: ObstoreResultStore, fault_proxy: FaultProxy
) -> None:
    """Another owner's object under our key is a conflict, however our request was lost on the way."""
    s3_store.put_if_absent("part", b"theirs")
    for fault in PASSING:
        fault_proxy.fail([fault])
        with pytest.raises(ObjectConflict):
            shaky.put_if_absent("part", b"ours")
    assert s3_store.get("part") == b"theirs"


def test_reads_listings_and_deletes_are_tried_again(shaky: ObstoreResultStore, fault_proxy: FaultProxy) -> None:
    """A slow-down or a reset in the middle of a listing is not an empty listing, and never a missing object."""
    shaky.put_if_absent("a/b", b"1")
    for fault in (Fault.SLOW_DOWN, Fault.DROP_BEFORE, Fault.DROP_AFTER):
        methods = ("GET", "HEAD", "POST", "DELETE")
        fault_proxy.fail([fault], methods=methods)
        assert shaky.get("a/b") == b"1"
        fault_proxy.fail([fault], methods=methods)
        assert [item.key for item in shaky.list("a")] == ["a/b"]
        fault_proxy.fail([fault], methods=methods)
        assert shaky.head("a/b") is not None
    fault_proxy.fail([Fault.DROP_AFTER], methods=("POST", "DELETE"))
    shaky.delete("a/b")
    with pytest.raises(ObjectMissing):
        shaky.get("a/b")


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.CONFLICT, Fault.DROP_BEFORE])
def test_patience_ends(seaweed_server: SeaweedServer, fault_proxy: FaultProxy, s3_uri: str, fault: Fault) -> None:
    """A store that stays away is an error of its own within `retry_for_s`, which names the object and no secret."""
    store = open_result_store(s3_uri, seaweed_server.config(fault_proxy.endpoint_url), retry_for_s=0.5)
    fault_proxy.fail([], always=fault)
    with pytest.raises(StoreUnavailable, match=r"cannot write .*/part for 0\.5 s") as caught:
        store.put_if_absent("part", b"rows")
    assert SECRET_KEY not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert "\n" not in str(caught.value)
    assert len(fault_proxy.seen) > 1


def test_a_refusal_is_not_tried_again(shaky: ObstoreResultStore, fault_proxy: FaultProxy) -> None:
    """403 does not mend itself in a minute: a worker with a wrong role must say so at once."""
    fault_proxy.fail([], always=Fault.FORBIDDEN)
    with pytest.raises(StoreUnavailable, match="AccessDenied"):
        shaky.put_if_absent("part", b"rows")
    assert len(fault_proxy.seen) == 1


@pytest.mark.parametrize("down_s", [0, pytest.param(20, marks=pytest.mark.slow)])
def test_a_server_restart_is_waited_out(
    seaweed_server: SeaweedServer, s3_store: ObstoreResultStore, down_s: int
) -> None:
    """A store that is killed and comes back 20 s later costs time, and neither an object nor an error."""
    s3_store.put_if_absent("before", b"1")
    began = threading.Barrier(4)

    def during(call: object) -> object:
        began.wait()
        return call()  # type: ignore[operator]

    seaweed_server.stop()
    down_since = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        put = pool.submit(during, lambda: s3_store.put_if_absent("during", b"2"))
        got = pool.submit(during, lambda: s3_store.get("before"))
        listed = pool.submit(during, lambda: [item.key for item in s3_store.list("")])
        began.wait()
        threading.Event().wait(max(0, down_since + down_s - time.monotonic()))
        seaweed_server.start()
        assert put.result()
        assert got.result() == b"1"
        assert listed.result() in (["before"], ["before", "during"])
    assert s3_store.get("during") == b"2"
