"""Runs of a version's asset: real workers with the fake engine, a real Dagster instance in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from batch_assets.components.names import SHARDS_TAG, current_key, dead_letters_key
from resources.clock import SystemClock
from resources.releases.log import ReleaseLog
from tests.dagster.world import JOB, World, failure_text, materializations

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")


def test_a_range_then_everything_redoes_nothing(world: World) -> None:
    """After a run over two shards, one over all claims and reports the third only, and a third run nothing."""
    first = world.run(world.key, first=0, last=1)
    assert first.success
    assert sorted(map(str, materializations(first))) == ["00000", "00001"]
    second = world.run(world.key, first=0, last=2)
    assert second.success
    assert materializations(second) == ["00002"]
    third = world.run(world.key, first=0, last=2)
    assert third.success
    assert materializations(third) == []
    assert world.epochs() == [1, 1, 1]
    assert world.green == {"00000", "00001", "00002"}


def test_a_backfill_is_told_about_every_shard_it_asked_for(world: World) -> None:
    """A backfill over finished shards called them failed, and never asked for `current`, because no run reported them.

    They are reported again, not answered again.
    """
    assert world.run(world.key, first=0, last=1).success
    result = world.run(world.key, first=0, last=2, tags={"dagster/backfill": "a-backfill"})
    assert result.success
    assert sorted(map(str, materializations(result))) == ["00000", "00001", "00002"]
    assert world.epochs() == [1, 1, 1]


def test_shards_turn_green_while_the_run_goes_on(tmp_path: Path) -> None:
    """At some look at the shard table, Dagster already knew some shards of the run in progress, and not all."""
    world = World(tmp_path, records=24, shard_size=4, fake_faults=json.dumps({"latency_s": 0.1}))
    seen: list[int] = []

    class LookingClock(SystemClock):
        def sleep(self, seconds: float) -> None:
            seen.append(len(world.green))
            super().sleep(seconds)

    world.platform.clock = LookingClock()
    assert world.run(world.key, first=0, last=5).success
    assert any(0 < green < 6 for green in seen), seen
    assert len(world.green) == 6


def test_shards_that_are_no_range(world: World) -> None:
    """The command line's `--shards 0,2` is one run: Dagster gives it the range, the tag says which of it."""
    result = world.run(world.key, first=0, last=2, tags={SHARDS_TAG: "0,2"})
    assert result.success
    assert sorted(map(str, materializations(result))) == ["00000", "00002"]
    assert world.epochs() == [1, 0, 1]


def test_a_complete_run_shows_its_summary_and_its_checks(world: World) -> None:
    """The verdicts are there although Dagster skips the run's check steps, and the summary has numbers and pictures."""
    result = world.run(world.key, first=0, last=2)
    assert result.success
    (observation,) = [event for event in result.all_events if event.event_type_value == "ASSET_OBSERVATION"]
    metadata = observation.asset_observation_data.asset_observation.metadata
    assert metadata["records"].value == 9
    assert metadata["results"].value + metadata["dead_letters"].value == 9
    assert isinstance(metadata["preview"], dg.TableMetadataValue)
    for picture in ("throughput_plot", "category_chart"):
        assert metadata[picture].value.startswith("![")
        assert len(metadata[picture].value) < 30_000
    # The asset's page shows the latest materialization, so the summary is there too.
    latest = world.instance.get_latest_materialization_event(world.key)
    assert latest is not None
    assert latest.asset_materialization is not None
    shown = latest.asset_materialization.metadata
    assert shown["run_results"].value == metadata["results"].value
    assert shown["category_chart"] == metadata["category_chart"]
    for name in ("coverage", "schema"):
        (record,) = world.instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(world.key, name), limit=5
        )
        assert record.evaluation is not None
        assert record.evaluation.passed


def test_current_alone_refuses_after_a_failed_check(world: World) -> None:
    """Blocking holds within one run only; `current`, materialized alone in another run, verifies the gates itself."""
    assert world.run(world.key, first=0, last=1).success
    alone = world.run(current_key(JOB))
    assert not alone.success
    assert "GateRefused" in failure_text(alone)
    assert "2 of 3 shards are done" in failure_text(alone)
    assert ReleaseLog(world.platform.store, JOB).current() is None


def test_the_publish_job_checks_then_publishes_once(world: World) -> None:
    """The publish job runs both checks, shows the dead letters and appends one release; again, it appends none."""
    assert world.run(world.key, first=0, last=2).success
    job = world.definitions.resolve_job_def(f"{JOB}_publish")
    for _ in range(2):
        result = job.execute_in_process(instance=world.instance)
        assert result.success
        passed = {item.check_name: item.passed for item in result.get_asset_check_evaluations()}
        assert passed == {"coverage": True, "schema": True}
        shown = {event.asset_key: event.materialization.metadata for event in result.get_asset_materialization_events()}
        assert shown[current_key(JOB)]["version"].value == world.version
        assert shown[dead_letters_key(JOB)]["dagster/row_count"].value == 1
    assert len(ReleaseLog(world.platform.store, JOB).entries()) == 1


def test_the_publish_job_stops_at_a_failed_check(world: World) -> None:
    """A blocking check that fails keeps `current` from starting in the same run."""
    assert world.run(world.key, first=0, last=1).success
    result = world.definitions.resolve_job_def(f"{JOB}_publish").execute_in_process(
        instance=world.instance, raise_on_error=False
    )
    assert not result.success
    assert not [event for event in result.all_events if event.is_step_start and "current" in (event.step_key or "")]
    assert ReleaseLog(world.platform.store, JOB).current() is None


def test_materializing_the_snapshot_twice_registers_once(world: World) -> None:
    """The same input and recipe are the same version, and the page says so."""
    result = world.run(dg.AssetKey([JOB, "snapshot"]))
    assert result.success
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["version"].value == world.version
    assert "earlier" in str(event.materialization.metadata["registered"].value)
    assert "next" not in event.materialization.metadata
