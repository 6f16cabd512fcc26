"""The Dagster UI in a real browser: a person's clicks from the first snapshot to `current`.

One job of ten shards on the fake engine (one record at a time), one webserver and daemon; the tests go on from each
other's state, in the order of this file, as a person would.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from batch_assets.domain.lease import ShardState
from resources.clock import SystemClock
from resources.platform import Platform
from resources.settings import Settings
from tests.cli.scratch import ROOT, ScratchProject
from tests.ui.page import RUN_TIMEOUT_MS, Pages
from tests.ui.services import chromium, dagster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

JOB = "tickets"
LATENCY_S = 1.5  # an answer; a shard has four
SCREENSHOT = ROOT / "docs" / "ui.png"


@dataclass(frozen=True, slots=True)
class Site:
    """The pages, what lies behind them, and the version that the snapshot registered."""

    pages: Pages
    platform: Platform
    version: str

    def states(self) -> list[ShardState]:
        """Return the state of each shard."""
        return [row.state for row in self.platform.table.shards(self.version)]

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes of the version that run now."""
        return [
            process for process in psutil.process_iter(["cmdline"]) if self.version in (process.info["cmdline"] or [])
        ]


def wait_until(condition: Callable[[], object], *, timeout_s: float, what: str) -> float:
    """Wait for a condition and return how many seconds it took."""
    clock = SystemClock()
    started_s = clock.monotonic_s()
    while not condition():
        waited_s = clock.monotonic_s() - started_s
        assert waited_s < timeout_s, f"{what}: not within {timeout_s:.0f} s"
        clock.sleep(0.05)
    return clock.monotonic_s() - started_s


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Materialize the snapshot on the graph page; its version becomes an asset without another click."""
    project = ScratchProject(tmp_path_factory.mktemp("site"))
    defs = project.job / "defs.yaml"
    slow = defs.read_text().replace("shard_size: 10", "shard_size: 4").replace("engine: fake", SLOW_ENGINE)
    defs.write_text(slow)
    platform = Platform.open(Settings(data_dir=project.data))
    faults = json.dumps({"latency_s": LATENCY_S})
    with dagster(project, BATCH_ASSETS_FAKE_FAULTS=faults) as url, chromium() as browser:
        pages = Pages(browser.new_page(viewport={"width": 1400, "height": 900}), url, JOB)
        pages.open_graph()
        pages.page.get_by_role("button", name="Materialize").first.click()
        wait_until(lambda: platform.registry.versions(JOB), timeout_s=240, what="a version is registered")
        ((_, version),) = platform.registry.versions(JOB)
        pages.page.get_by_text(version).first.wait_for(timeout=RUN_TIMEOUT_MS)
        yield Site(pages, platform, version)


SLOW_ENGINE = "engine: fake\n    max_num_seqs: 1"


def test_two_shards_turn_green(site: Site) -> None:
    """Two shards chosen on the version's page are answered, and nothing else is."""
    site.pages.open_asset(site.version, "partitions")
    site.pages.wait_for_count("Missing", "10")
    site.pages.materialize(["00000", "00001"])
    site.pages.wait_for_count("Materialized", "2")
    site.pages.wait_for_count("Missing", "8")
    done = [index for index, state in enumerate(site.states()) if state is ShardState.DONE]
    assert done == [0, 1]


def test_cancelling_the_run_stops_its_workers(site: Site) -> None:
    """Shards turn green while the run goes on; Terminate ends its workers in seconds and gives their leases back."""
    site.pages.open_asset(site.version, "partitions")
    site.pages.materialize()
    site.pages.wait_for_count("Materialized", "[3-9]")
    (run_id,) = site.pages.running()
    workers = site.workers()
    assert workers
    site.pages.page.goto(f"{site.pages.url}/runs/{run_id}")
    site.pages.page.get_by_role("button", name="Terminate").first.click()
    site.pages.page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
    took_s = wait_until(
        lambda: not any(process.is_running() for process in workers), timeout_s=30, what="the workers are gone"
    )
    assert took_s < 15
    wait_until(lambda: ShardState.LEASED not in site.states(), timeout_s=5, what="leases are released")
    site.pages.page.get_by_text("Canceled", exact=True).first.wait_for()
    assert ShardState.PENDING in site.states()
    site.pages.open_asset(site.version, "partitions")
    site.pages.wait_for_count("Missing", "[1-7]")
    site.pages.wait_for_count("Failed", "0")


def test_the_whole_chain_from_the_graph(site: Site) -> None:
    """Materialize all on the graph page: snapshot, then the rest of the shards, then dead letters and `current`."""
    site.pages.open_graph()
    site.pages.materialize()
    wait_until(
        lambda: set(site.states()) == {ShardState.DONE}, timeout_s=RUN_TIMEOUT_MS / 1000, what="every shard is done"
    )
    releases = site.platform.store.list
    wait_until(lambda: releases(f"releases/{JOB}"), timeout_s=RUN_TIMEOUT_MS / 1000, what="a release is appended")
    site.pages.open_asset("current", "events")
    site.pages.page.get_by_text("published").first.wait_for(timeout=RUN_TIMEOUT_MS)


def test_the_check_results(site: Site) -> None:
    """The version's Checks tab shows both gates passed, with their numbers."""
    site.pages.open_asset(site.version, "checks")
    for name in ("coverage", "schema"):
        site.pages.page.get_by_text(name, exact=True).first.wait_for()
    site.pages.page.get_by_text("Passed").first.wait_for()
    assert site.pages.page.get_by_text("Failed").count() == 0


def test_the_versions_page_shows_the_last_run(site: Site) -> None:
    """The overview has the run's totals, a preview and both pictures, although each event belongs to one shard."""
    site.pages.open_asset(site.version, "overview")
    for key in ("run_records_per_s", "run_output_tokens", "throughput_plot", "category_chart", "preview"):
        site.pages.page.get_by_text(key, exact=True).first.wait_for()


def test_pictures_are_drawn(site: Site) -> None:
    """The category chart of `current` is a picture inside the page's own Markdown, and the browser draws it."""
    site.pages.open_asset("current", "overview")
    site.pages.page.get_by_text("Show Markdown").first.click()
    picture = site.pages.page.locator("img[src^='data:image/png']").first
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 100
    if os.environ.get("UPDATE_SCREENSHOT"):
        _screenshot(site, SCREENSHOT)


def _screenshot(site: Site, path: Path) -> None:
    site.pages.open_graph()
    for word in ("2 / 2 Passed", "100% filled"):
        site.pages.page.get_by_text(word).first.wait_for()
    site.pages.page.screenshot(path=str(path), clip={"x": 0, "y": 0, "width": 1400, "height": 720})
