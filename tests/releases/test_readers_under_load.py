"""Readers of three kinds, while releases, rollbacks and compactions happen: never a mix, a missing file or an error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from resources.duck import connect
from resources.releases.compact import compact
from resources.releases.log import ReleaseLog
from resources.releases.reader import scan_release
from tests.releases.layers import NOON, Night, modelled, put_layer
from tests.releases.test_layers import by_sql, shown
from tests.releases.test_readers import DOC
from tests.results.world import JOB

IDS = [f"r{number:02d}" for number in range(40)]
FULL = {name: Night(dict.fromkeys(IDS, name)) for name in ("x", "y")}
NIGHTS = [
    Night(dict.fromkeys(IDS[start : start + 12], f"n{start}"), dead=frozenset(IDS[start + 12 : start + 14]))
    for start in (0, 8, 16)
]
# Every table that some release shows: a reader may see these and nothing else.
STATES = {json.dumps(sorted(modelled([full, *NIGHTS[:end]]).items())) for full in FULL.values() for end in range(4)}
ROUNDS = 3


def state(rows: dict[str, str]) -> str:
    return json.dumps(sorted(rows.items()))


def write(place, duck) -> None:
    """Whole versions, nights over them, compactions before the last night and after it, rollbacks."""
    log = ReleaseLog(place.store, JOB)
    for number in range(ROUNDS):
        for name, full in FULL.items():
            version = f"v-{number}{name}"
            publish_layer(log, put_layer(place.store, version, full), base=None)
            for index, night in enumerate(NIGHTS):
                base = log.current().sequence
                if index == 2:
                    assert compact(place.store, duck, JOB, rows_per_object=9, published_at=NOON)
                publish_layer(log, put_layer(place.store, f"{version}{index}", night), base=base)
            assert compact(place.store, duck, JOB, rows_per_object=9, published_at=NOON)
            log.rollback(None, reason="back", published_at=NOON)
            log.rollback(log.current().sequence - 1, reason="and forth", published_at=NOON)


def publish_layer(log: ReleaseLog, layer, *, base: int | None) -> None:
    assert log.publish(layer.version, [layer], reason="", checks={}, published_at=NOON, base=base).appended


def until(stop: threading.Event, read: Callable[[], str]) -> set[str]:
    """Read until the writer has ended, and once more."""
    seen = {read()}
    while not stop.is_set():
        seen.add(read())
    return seen | {read()}


HAND = """\
import json, sys
out = []
while True:
{snippet}
    out.append(json.dumps(sorted(rows.select("record_id, summary").fetchall())))
    if sys.argv[1] != "-" and pathlib.Path(sys.argv[1]).exists():
        break
print(json.dumps(sorted(set(out))))
"""


def start_by_hand(place, stopped: Path) -> subprocess.Popen[str]:
    """Run the document's snippet in a process of its own, again and again, until a file appears."""
    snippet = re.search(r"<!-- by hand -->\n```python\n(.*?)```", DOC.read_text(), re.DOTALL).group(1)
    code = snippet.replace("STORE", repr(place.uri)).replace("support_tickets", JOB)
    indented = "".join(f"    {line}\n" for line in code.splitlines())
    script = HAND.replace("{snippet}", indented)
    return subprocess.Popen([sys.executable, "-c", script, str(stopped)], stdout=subprocess.PIPE, text=True)


def test_readers_see_one_release_whole(place, tmp_path, reader_duck):
    """Python frames and SQL views in threads, the manifest by hand in a process: each read is some release's table."""
    publish_layer(ReleaseLog(place.store, JOB), put_layer(place.store, "v-first", FULL["x"]), base=None)
    stop, stopped = threading.Event(), tmp_path / "stopped"
    hand = start_by_hand(place, stopped) if place.s3 is None else None

    def write_all() -> None:
        try:
            write(place, reader_duck)
        finally:
            stop.set()
            stopped.touch()

    def read_frames() -> set[str]:
        log = ReleaseLog(place.store, JOB)
        return until(stop, lambda: state(shown(scan_release(place.scanner, log.current()).collect())))

    def read_views() -> set[str]:
        with connect(place.s3, threads=1) as connection:
            return until(stop, lambda: state(by_sql(connection, place)))

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read_frames), pool.submit(read_views)]
        pool.submit(write_all).result(300)
        seen = [reader.result(300) for reader in readers]
    if hand is not None:
        output, _ = hand.communicate(timeout=60)
        assert hand.returncode == 0
        seen.append({json.dumps([list(pair) for pair in json.loads(item)]) for item in json.loads(output)})
    for states in seen:
        assert states <= STATES
        assert len(states) > 1
