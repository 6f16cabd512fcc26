"""The asset graph as a file: a change of it is a change that somebody reads.

`UPDATE_GOLDEN=1 python -m pytest tests/dagster/test_golden_graph.py` writes the file again; look at the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.dependency import NodeHandle

from batch_assets.components.job_definitions import job_definitions
from batch_assets.components.live_versions import LiveName, LiveVersion
from batch_assets.domain.spec import JobSpec
from tests.dagster.world import JOB, make_spec

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

GOLDEN = Path(__file__).parent / "golden_graph.json"


def live(spec: JobSpec, version: str, **part: bool) -> LiveVersion:
    """Return a version of three shards."""
    return LiveVersion(
        name=LiveName(version=version, candidate=part.get("candidate", False), published=part.get("published", False)),
        spec=spec,
        snapshot="s-0123456789ab",
        records=9,
        refused=1,
        shard_keys=("00000", "00001", "00002"),
        registered_at="2026-01-31T08:15:00+00:00",
    )


def complete(definitions: dg.Definitions) -> dg.Definitions:
    """Return the definitions with a platform that nobody opens."""
    resources = {"platform": dg.ResourceDefinition.none_resource()}
    return dg.Definitions.merge(definitions, dg.Definitions(resources=resources))


@pytest.fixture
def definitions(tmp_path: Path) -> dg.Definitions:
    """A job with a candidate and an older, published version of another recipe."""
    spec = make_spec(tmp_path, records=9, shard_size=3)
    older = make_spec(tmp_path, records=9, shard_size=3, digest="1" * 64)
    versions = [live(spec, "v-aaaaaaaaaaaa", candidate=True), live(older, "v-bbbbbbbbbbbb", published=True)]
    return complete(job_definitions(spec, versions))


def described(definitions: dg.Definitions) -> dict[str, Any]:
    """Return the graph as plain JSON values, keys first."""
    graph = definitions.resolve_asset_graph()
    nodes = [graph.get(key) for key in sorted(graph.get_all_asset_keys())]
    return {
        "keys": [node.key.to_user_string() for node in nodes],
        "assets": {
            node.key.to_user_string(): {
                "group": node.group_name,
                "deps": sorted(key.to_user_string() for key in node.parent_keys),
                "kinds": sorted(node.kinds),
                "owners": list(node.owners),
                "code_version": node.code_version,
                "partitions": node.partitions_def.get_partition_keys() if node.partitions_def else None,
                "backfill_policy": node.backfill_policy.policy_type.value if node.backfill_policy else None,
                "automation": str(node.automation_condition) if node.automation_condition else None,
                "metadata": sorted(node.metadata),
            }
            for node in nodes
        },
        "checks": {
            f"{key.asset_key.to_user_string()}:{key.name}": {"blocking": graph.get(key).blocking}
            for key in sorted(graph.asset_check_keys)
        },
        "jobs": {
            job.name: sorted(key.to_user_string() for key in job.asset_layer.selected_asset_keys)
            for job in (definitions.resolve_job_def(f"{JOB}_run"), definitions.resolve_job_def(f"{JOB}_publish"))
        },
        "sensors": {sensor.name: sensor.default_status.value for sensor in definitions.sensors or ()},
    }


def test_the_graph_is_the_one_we_agreed_on(definitions: dg.Definitions) -> None:
    """Keys first, then everything else about them: a renamed key breaks every saved link and every reader's config."""
    found = described(definitions)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=2) + "\n")
    golden = json.loads(GOLDEN.read_text())
    assert found["keys"] == golden["keys"]
    assert found == golden


def test_nothing_is_retried_by_dagster(definitions: dg.Definitions) -> None:
    """Retries live in the shard table alone: no op, job or tag of the graph asks Dagster for one."""
    for name in (f"{JOB}_run", f"{JOB}_publish", "__ASSET_JOB"):
        job = definitions.resolve_job_def(name)
        assert "dagster/max_retries" not in job.tags
        for node in job.nodes:
            assert job.get_retry_policy_for_handle(NodeHandle(node.name, None)) is None, node.name
            assert node.definition.retry_policy is None, node.name


def test_before_the_first_snapshot_only_the_snapshot_is_an_asset(tmp_path: Path) -> None:
    """Without a registered version nothing could be current, so there is nothing to click that must fail."""
    definitions = complete(job_definitions(make_spec(tmp_path, records=9, shard_size=3), []))
    keys = [key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()]
    assert keys == [f"{JOB}/snapshot"]


def test_live_versions_are_the_last_three_the_published_and_the_pinned(tmp_path: Path) -> None:
    """Of six registered versions: the last three, the published second one, and the first because it is pinned."""
    from batch_assets.components.live_versions import live_names, live_versions
    from resources.flow import register, take_and_register
    from resources.platform import Platform
    from resources.releases.log import ReleaseLog
    from resources.settings import Settings

    settings = Settings(data_dir=tmp_path / "data")
    platform = Platform.open(settings)
    snapshot = take_and_register(platform, make_spec(tmp_path, records=9, shard_size=3)).snapshot
    specs = [make_spec(tmp_path, records=9, shard_size=3, digest=str(number) * 64) for number in range(6)]
    versions = [register(platform, spec, snapshot).version for spec in specs]
    ReleaseLog(platform.store, JOB).publish(
        versions[1], [], reason="a test", checks={}, published_at=platform.now_iso()
    )
    found = live_names(JOB, platform.store, [versions[0]])
    assert [item.version for item in found] == [versions[index] for index in (5, 4, 3, 1, 0)]
    assert [item.version for item in found if item.candidate] == [versions[5]]
    assert [item.version for item in found if item.published] == [versions[1]]
    assert [item.version for item in live_versions(JOB, settings)] == [versions[index] for index in (5, 4, 3, 1)]
