"""The `ObjectStore` port over every adapter: memory, a folder, and a real S3 server."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from batch_assets.domain.canonical import digest_of_bytes
from batch_assets.domain.errors import InvalidKey, ObjectConflict, ObjectMissing
from batch_assets.domain.ports import ObjectInfo, ObjectStore
from resources.result_store.keys import checked_key
from resources.result_store.store import ObstoreResultStore

KEY = "staging/tickets/v-1/shard=00417/epoch=0003/part-00000.parquet"
ODD_KEYS = ("ü =ß/日本/☃.parquet", "a=1/b%2Fc%41", "sp ace+plus/~#?&", "dots/..a/b..", ".hidden/x", "q'uote\"/x")


def test_what_is_put_is_what_is_read(result_store: ObjectStore) -> None:
    """A written object is whole, has its size, and is put once: the second identical PUT says so and succeeds."""
    assert result_store.put_if_absent(KEY, b"answers")
    assert not result_store.put_if_absent(KEY, b"answers")
    assert result_store.get(KEY) == b"answers"
    assert result_store.head(KEY) == ObjectInfo(key=KEY, size_bytes=7)


def test_other_content_is_a_conflict_that_names_key_and_digests(result_store: ObjectStore) -> None:
    """Nothing is ever overwritten, an empty or a longer object included; the message tells the two apart."""
    result_store.put_if_absent(KEY, b"first")
    for other in (b"", b"second", b"first and more"):
        with pytest.raises(ObjectConflict) as caught:
            result_store.put_if_absent(KEY, other)
        message = str(caught.value)
        assert KEY in message
        assert digest_of_bytes(b"first") in message
        assert digest_of_bytes(other) in message
    assert result_store.get(KEY) == b"first"


def test_what_is_not_there(result_store: ObjectStore) -> None:
    """A missing object, and the folder of another one, are missing; deleting a missing object is no error."""
    result_store.put_if_absent("folder/object", b"1")
    for key in ("nothing", "folder/nothing", "folder"):
        with pytest.raises(ObjectMissing, match=key):
            result_store.get(key)
        assert result_store.head(key) is None
    result_store.delete("nothing")
    assert result_store.list("nothing") == []


def test_a_deleted_object_is_gone_and_its_key_is_free(result_store: ObjectStore) -> None:
    """Retention deletes; what it deleted may be written again, and its neighbours stay."""
    result_store.put_if_absent("a/x", b"1")
    result_store.put_if_absent("a/y", b"1")
    result_store.delete("a/x")
    assert [item.key for item in result_store.list("a")] == ["a/y"]
    assert result_store.put_if_absent("a/x", b"2")
    assert result_store.get("a/x") == b"2"


def test_an_empty_object_stands(result_store: ObjectStore) -> None:
    """Zero bytes are content like any other."""
    assert result_store.put_if_absent("empty", b"")
    assert not result_store.put_if_absent("empty", b"")
    assert result_store.get("empty") == b""
    assert result_store.list("") == [ObjectInfo(key="empty", size_bytes=0)]


def test_a_prefix_is_a_folder(result_store: ObjectStore) -> None:
    """`v-1` must not list `v-10`, nor the object `v-1` itself: a version would count its neighbour's parts."""
    for key in ("jobs/v-1/b", "jobs/v-1/a/z", "jobs/v-10/c", "jobs/v-1.json", "other"):
        result_store.put_if_absent(key, key.encode())
    assert [item.key for item in result_store.list("jobs/v-1")] == ["jobs/v-1/a/z", "jobs/v-1/b"]
    assert result_store.list("jobs/v-1/") == result_store.list("jobs/v-1")
    assert result_store.list("jobs/v-1.json") == []
    assert [item.key for item in result_store.list("")] == [
        "jobs/v-1.json",
        "jobs/v-1/a/z",
        "jobs/v-1/b",
        "jobs/v-10/c",
        "other",
    ]
    assert result_store.list("other") == []


def test_a_listing_is_complete_past_one_page(result_store: ObjectStore) -> None:
    """S3 answers 1,000 keys at a time; a shard with more parts than that lost some in other systems."""
    keys = [f"many/part-{number:05d}" for number in range(1005)]
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda key: result_store.put_if_absent(key, key.encode()), keys))
    assert result_store.list("many") == [ObjectInfo(key=key, size_bytes=len(key)) for key in keys]


def test_ten_megabytes_come_back(result_store: ObjectStore) -> None:
    """A compact result is larger than any multipart threshold and still one conditional PUT."""
    data = bytes(range(256)) * 40_000
    assert result_store.put_if_absent("big", data)
    assert not result_store.put_if_absent("big", data)
    assert result_store.get("big") == data
    with pytest.raises(ObjectConflict):
        result_store.put_if_absent("big", data[:-1] + b"!")


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_keys_come_back_as_they_went_in(result_store: ObjectStore, key: str) -> None:
    """`=` is in every key of ours; anything else that a job's name may hold is neither escaped nor lost."""
    result_store.put_if_absent(key, b"odd")
    assert result_store.get(key) == b"odd"
    assert [item.key for item in result_store.list("")] == [key]
    assert result_store.uri(key).endswith(key)


@pytest.mark.parametrize("key", ["", "/", "../x", "a/../../x", "a/./b", "a//b", "/etc/x", "a/", "a\\b", "a\nb", "a#1"])
def test_a_key_cannot_leave_the_store(result_store: ObjectStore, key: str) -> None:
    """Whoever chooses a job's name must not choose where a file lands; every call refuses."""
    for call in (result_store.get, result_store.head, result_store.delete, result_store.uri):
        with pytest.raises(InvalidKey):
            call(key)
    with pytest.raises(InvalidKey):
        result_store.put_if_absent(key, b"")
    with pytest.raises(InvalidKey):
        result_store.list("../x")
    assert result_store.list("") == []


_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(_NAMES, min_size=1, max_size=3))
@example(names=["a?*[x]"])
@example(names=["#", "x"])
@example(names=["%", "%2e%2e"])
def test_any_key_is_refused_or_kept(result_store: ObstoreResultStore, names: list[str]) -> None:
    """There is no third way: a key is InvalidKey, or it reads, lists and deletes under exactly its own name."""
    folder = uuid4().hex  # this example's own
    key = "/".join([folder, *names])
    try:
        checked_key(key)
    except InvalidKey:
        with pytest.raises(InvalidKey):
            result_store.put_if_absent(key, b"1")
        return
    assert result_store.put_if_absent(key, b"1")
    assert result_store.get(key) == b"1"
    assert [item.key for item in result_store.list(folder)] == [key]
    result_store.delete(key)
    assert result_store.list(folder) == []


def test_of_many_writers_with_different_bytes_exactly_one_wins(result_store: ObjectStore) -> None:
    """The whole system stands on this: two owners of one epoch, or two publishers, never both succeed."""
    writers = 6
    for number in range(3):
        key = f"race/{number}"
        together = threading.Barrier(writers)

        def put(writer: int, key: str = key, together: threading.Barrier = together) -> tuple[str, bytes]:
            data = bytes([writer]) * 5000
            together.wait()
            try:
                return ("won" if result_store.put_if_absent(key, data) else "ours"), data
            except ObjectConflict:
                return "conflict", data

        with ThreadPoolExecutor(writers) as pool:
            outcomes = list(pool.map(put, range(writers)))
        assert Counter(outcome for outcome, _ in outcomes) == {"won": 1, "conflict": writers - 1}
        assert result_store.get(key) == next(data for outcome, data in outcomes if outcome == "won")


def test_of_many_writers_with_the_same_bytes_all_succeed(result_store: ObjectStore) -> None:
    """Registering a version twice at the same moment is a no-op for everyone but the first."""
    for number in range(3):
        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(lambda _, number=number: result_store.put_if_absent(f"same/{number}", b"v"), range(8)))
        assert sum(won) == 1


def test_two_stores_on_one_prefix_see_each_other(tmp_path: Path) -> None:
    """Workers are processes: what one wrote stands for the others, and the uri is a path that anyone opens."""
    from resources.result_store.store import open_result_store

    one, other = open_result_store(str(tmp_path)), open_result_store(f"file://{tmp_path}")
    one.put_if_absent("a/b", b"1")
    assert not other.put_if_absent("a/b", b"1")
    assert Path(other.uri("a/b")).read_bytes() == b"1"
