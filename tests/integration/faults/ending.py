"""How every scene ends, whatever was broken in it: nothing lost, nothing twice, nobody left, and the price told."""

from __future__ import annotations

from collections.abc import Mapping

from batch_assets.domain.lease import ShardState
from resources.flow import dead_letters, run_checks, scan_version
from resources.results.audit import audit_version
from tests.integration.faults.scene import Scene
from tests.integration.faults.waiting import until

PRICES: list[tuple[int, int]] = []  # (recomputed, records) of the scenes of the test that runs now


def conclude(
    scene: Scene,
    *,
    exits: Mapping[str, int],
    dead: Mapping[str, str] | None = None,
    recomputed: int | None = None,
    recomputed_max: int | None = None,
) -> int:
    """Assert that a scene ended well, and tell how many records were computed more than once.

    Args:
        scene: the scene; all of its processes must have ended or be about to.
        exits: the exit code of each process that the scene started itself (-9: killed).
        dead: ids and failure classes of the records that must be dead letters; every other one has a result.
        recomputed: how many records must have been counted, if the scene has its own way to count them.
        recomputed_max: the bound, where there is one.
    """
    assert {hand.name: hand.wait() for hand in scene.hands} == dict(exits)
    _nobody_is_left(scene)
    _every_record_once(scene, dead or {})
    _storage_agrees(scene, len(dead or {}))
    count = scene.journal.recomputed if recomputed is None else recomputed
    PRICES.append((count, len(scene.texts)))
    print(f"recomputed {count} of {len(scene.texts)} records")  # noqa: T201 - the scene's price, for whoever reads
    assert recomputed_max is None or count <= recomputed_max
    return count


def _nobody_is_left(scene: Scene) -> None:
    until(lambda: not scene.living, f"the end of {scene.living}")


def _every_record_once(scene: Scene, dead: Mapping[str, str]) -> None:
    everybody = {f"r{number:05d}" for number in range(len(scene.texts))}
    answered = scan_version(scene.platform, scene.version).select("record_id").collect()["record_id"].to_list()
    assert sorted(answered) == sorted(everybody - dead.keys())
    letters = dead_letters(scene.platform, scene.version).select("record_id", "failure").rows()
    assert sorted(letters) == sorted(dead.items())


def _storage_agrees(scene: Scene, dead: int) -> None:
    platform, job = scene.platform, scene.spec.name
    assert {row.state for row in scene.rows} == {ShardState.DONE}
    plan, refused_key = platform.registry.plan(job, scene.version), platform.registry.refused_key(job, scene.version)
    audit = audit_version(platform.store, job, plan, refused_key, scene.rows)
    assert audit.clean, audit.disagreements
    records = len(scene.texts)
    assert (audit.records, audit.results, audit.dead_letters, audit.pending) == (records, records - dead, dead, 0)
    assert all(check.passed for check in run_checks(platform, scene.version))
