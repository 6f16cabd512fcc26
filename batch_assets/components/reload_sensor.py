"""Makes new versions assets by themselves: asks the webserver to load this location again when the registry moved on.

Definitions are read once, when a code location is loaded. A snapshot that registers a version therefore changes
nothing on the page until somebody clicks Reload; this is that click.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import requests

from batch_assets.components.live_versions import LiveName, configured_store, live_names, pinned
from batch_assets.domain.canonical import digest_of
from resources.settings import load_settings

INTERVAL_S = 10
TIMEOUT_S = 60.0
RELOAD = """
mutation Reload($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) {
    __typename
    ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } }
    ... on Error { message }
  }
}
"""


def reload_sensor(job: str, loaded: Sequence[LiveName]) -> dg.SensorDefinition:
    """Return the sensor of one job; `loaded` are the versions that the definitions at hand were made from."""

    @dg.sensor(
        name=f"{job}_reload_definitions",
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reloads this code location when a version was registered or published since it was loaded.",
    )
    def reload_definitions(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        settings = load_settings()
        now = live_names(job, configured_store(settings), pinned(settings))
        if tuple(now) == tuple(loaded):
            return dg.SkipReason("every live version is an asset")
        asked = digest_of([[item.version, item.candidate, item.published] for item in now])
        if context.cursor == asked:  # the daemon may see the reloaded location later than the webserver
            return dg.SkipReason("the reload was asked for; this process has not seen it yet")
        origin = context.code_location_origin
        name = origin.location_name if origin else ""
        try:
            reload_location(settings.webserver_url, name)
        except (requests.RequestException, ValueError, KeyError) as error:
            return dg.SkipReason(f"click Reload: {settings.webserver_url} did not reload {name!r}: {error}")
        context.update_cursor(asked)
        return dg.SkipReason(f"reloaded {name!r} for {now[0].version if now else 'no version'}")

    return reload_definitions


def reload_location(webserver_url: str, name: str) -> None:
    """Ask a webserver to load a code location again.

    Raises:
        requests.RequestException: it cannot be reached. ValueError: it answered with an error.
    """
    body: dict[str, Any] = {"query": RELOAD, "variables": {"name": name}}
    answer = requests.post(f"{webserver_url.rstrip('/')}/graphql", json=body, timeout=TIMEOUT_S)
    answer.raise_for_status()
    result = answer.json()["data"]["reloadRepositoryLocation"]
    outcome = result.get("locationOrLoadError", result)
    if outcome["__typename"] != "RepositoryLocation":
        raise ValueError(outcome.get("message", outcome["__typename"]))
