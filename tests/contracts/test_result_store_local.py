"""The folder adapter: whole objects or none, whatever dies and however full the disk is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from batch_assets.domain.errors import ObjectConflict, StoreFull, StoreUnavailable
from resources.result_store.store import open_result_store

WRITER = """
import sys
from resources.result_store.store import open_result_store
store = open_result_store(sys.argv[1])
for number in range(10_000):
    store.put_if_absent(f"{sys.argv[2]}/part-{number:05d}", bytes([number % 256]) * 2_000_000)
    print(number, flush=True)
"""
FILLER = """
import resource, sys
from batch_assets.domain.errors import StoreFull
from resources.result_store.store import open_result_store
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
store = open_result_store(sys.argv[1])
store.put_if_absent("small", b"x" * 50_000)
try:
    store.put_if_absent("a/large", b"x" * 2_000_000)
except StoreFull as error:
    print(error)
assert store.head("a/large") is None, "torn"
assert [item.key for item in store.list("")] == ["small"], "litter"
store.delete("small")
assert store.put_if_absent("a/large", b"x" * 60_000), "no way on"
"""


def _files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_killed_writer_leaves_no_torn_object(tmp_path: Path) -> None:
    """Kill -9 in the middle of writing: every object that is listed is whole, and the next writer goes on."""
    store = open_result_store(str(tmp_path))
    for attempt in range(4):
        folder = f"try-{attempt}"
        command = [sys.executable, "-c", WRITER, str(tmp_path), folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline() for _ in range(2 + attempt)]
            writer.kill()
        assert all(said)
        standing = store.list(folder)
        assert len(standing) >= len(said)
        for number, item in enumerate(standing):
            assert store.get(item.key) == bytes([number % 256]) * 2_000_000
        assert store.put_if_absent(f"{folder}/part-{len(standing):05d}", b"next")


def test_an_unfinished_file_is_invisible(tmp_path: Path) -> None:
    """What a killed writer may leave behind is never listed, read as an object, or in anybody's way."""
    store = open_result_store(str(tmp_path))
    store.put_if_absent("shard/part", b"1")
    (tmp_path / "shard" / "#123456").write_bytes(b"half")
    assert [item.key for item in store.list("")] == ["shard/part"]


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Opening tries the folder, and every write goes over a second name: neither leaves a file."""
    store = open_result_store(str(tmp_path))
    store.put_if_absent("a/b", b"1")
    store.put_if_absent("a/b", b"1")
    with pytest.raises(ObjectConflict):
        store.put_if_absent("a/b", b"2")
    assert _files(tmp_path) == {"b"}


def test_a_file_too_large_for_the_system_says_so(tmp_path: Path) -> None:
    """A limit on file size, like a full disk: StoreFull with the path and what to do, nothing torn, and a way on."""
    done = subprocess.run(
        [sys.executable, "-c", FILLER, str(tmp_path), "limit"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"no room to write {tmp_path}/a/large" in done.stdout
    assert "df -h" in done.stdout
    assert _files(tmp_path) == {"large"}


def test_a_full_disk_says_so(tmp_path: Path) -> None:
    """A disk of 1 MB that fills up: the same promise, with a real ENOSPC."""
    inner = 'mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"'
    space = ["unshare", "--map-root-user", "--mount", "sh", "-c", inner, "sh", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run([*space, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system of its own")
    command = [*space, sys.executable, "-c", FILLER, str(tmp_path), "disk"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"no room to write {tmp_path}/a/large (No space left on device)" in done.stdout


def test_a_key_that_is_a_folder_is_a_conflict(tmp_path: Path) -> None:
    """A folder cannot hold both `a` and `a/b`, which S3 can: refused at once, not waited for."""
    store = open_result_store(str(tmp_path))
    store.put_if_absent("a/b", b"1")
    with pytest.raises(ObjectConflict, match="folder"):
        store.put_if_absent("a", b"1")
    with pytest.raises(ObjectConflict, match="file stands"):
        store.put_if_absent("a/b/c", b"1")


def test_a_store_whose_folder_went_away_comes_back_or_says_so(tmp_path: Path) -> None:
    """Somebody removes the folder under a running worker: it is made again; where it cannot be, the error is ours."""
    root = tmp_path / "store"
    store = open_result_store(str(root))
    shutil.rmtree(root)
    assert store.list("") == []
    assert store.put_if_absent("a/b", b"1")
    shutil.rmtree(root)
    root.write_text("a file")
    with pytest.raises((ObjectConflict, StoreUnavailable)):
        store.put_if_absent("a/b", b"1")


def test_store_full_is_an_error_of_the_flow() -> None:
    """Not the user's spec, not permanent: a worker that meets it exits and may be started again."""
    assert StoreFull.__mro__[1].__name__ == "BatchError"
