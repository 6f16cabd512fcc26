"""Retention as a job with a schedule: stopped, a dry run unless the deployment says otherwise."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from batch_assets.components.names import current_key
from tests.dagster.world import JOB, World

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")


def test_the_scheduled_run_does_what_the_deployment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A published version's staging is what retention gives up at once; only a deployment that says so deletes it."""
    world = World(tmp_path)
    assert world.run(world.key, first=0, last=2).success
    assert world.run(current_key(JOB)).success
    staging = f"staging/{JOB}"
    for delete in (False, True):
        monkeypatch.setenv("BATCH_ASSETS_GC_DELETE", str(delete))
        assert world.platform.store.list(staging)
        repository = world.definitions.get_repository_def()
        (schedule,) = repository.schedule_defs
        assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
        tick = schedule.evaluate_tick(dg.build_schedule_context(repository_def=repository))
        (request,) = tick.run_requests
        job = repository.get_job(schedule.job_name)
        assert job.execute_in_process(run_config=request.run_config, instance=world.instance).success
    assert world.platform.store.list(staging) == []
