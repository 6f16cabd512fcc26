"""What a person clicks and reads on Dagster's pages, by the words that are on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import requests
from playwright.sync_api import Page

PAGE_TIMEOUT_MS = 90_000
# A backfill is taken up by a daemon that looks every 30 s, its run by a queue, and this machine may be busy.
RUN_TIMEOUT_MS = 300_000


class Pages:
    """One tab, at one webserver."""

    def __init__(self, page: Page, url: str, job: str) -> None:
        page.set_default_timeout(PAGE_TIMEOUT_MS)
        self.page = page
        self.url = url
        self.job = job

    def open_graph(self) -> None:
        """Open the job's asset group."""
        self.page.goto(f"{self.url}/locations/batch_assets/asset-groups/{self.job}")
        self.page.get_by_role("button", name="Materialize").first.wait_for()

    def open_asset(self, name: str, view: str) -> None:
        """Open one tab of an asset's page."""
        self.page.goto(f"{self.url}/assets/{self.job}/{name}?view={view}")
        self.page.get_by_role("button", name="Materialize").first.wait_for()

    def materialize(self, partitions: Sequence[str] | None = None) -> None:
        """Click Materialize, choose partitions (None: All), and launch."""
        self.page.get_by_role("button", name="Materialize").first.click()
        dialog = self.page.get_by_role("dialog")
        if partitions is None:
            dialog.get_by_role("button", name="All", exact=True).click()
        else:
            dialog.get_by_text("Select a partition or create one").click()
            for key in partitions:
                self.page.get_by_role("menuitem").filter(has_text=key).click()
            self.page.keyboard.press("Escape")
        launch = self.page.get_by_role("button", name="Launch backfill")
        launch.click()
        launch.wait_for(state="hidden")

    def wait_for_count(self, state: str, numbers: str) -> None:
        """Wait until the partitions tab says `state (number)`; `numbers` is a pattern, since the page may skip some."""
        self.page.get_by_text(re.compile(rf"^{state} \({numbers}\)$")).wait_for(timeout=RUN_TIMEOUT_MS)

    def running(self) -> list[str]:
        """Return the ids of the runs that are started."""
        found = self.graphql("{runsOrError(filter: {statuses: [STARTED]}) {... on Runs {results {runId}}}}")
        return [run["runId"] for run in found["runsOrError"]["results"]]

    def graphql(self, query: str) -> dict[str, Any]:
        """Ask the webserver what its pages ask it."""
        answer = requests.post(f"{self.url}/graphql", json={"query": query}, timeout=60)
        data: dict[str, Any] = answer.json()["data"]
        return data
