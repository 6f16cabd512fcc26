"""Retention's decision: nothing that a kept release reads, and nothing that works, is ever given up."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_assets.domain.collection import decide
from batch_assets.domain.errors import UnknownVersion
from batch_assets.domain.release import Layer, Release, ReleasedObject, rollback
from batch_assets.domain.retention import DAY_S, Policy, Stored, Verdict, VersionFacts, kept_releases, seconds

JOB = "tickets"
NOW_S = 1_800_000_000.0
POLICY = Policy()


def iso(days_ago: float) -> str:
    return datetime.fromtimestamp(NOW_S - days_ago * DAY_S, tz=UTC).isoformat()


def key(kind: str, version: str, name: str = "shard=00000-aa.parquet") -> str:
    return f"{kind}/{JOB}/{version}/{name}"


def release(sequence: int, days_ago: float, *layers: str, folds: tuple[str, ...] = ()) -> Release:
    made = tuple(
        Layer(
            version=name,
            objects=(ReleasedObject(key=key("results", name), digest="", rows=1),),
            hidden=ReleasedObject(key=key("results", name, "hidden-aa.parquet"), digest="", rows=1),
            folds=folds if name.startswith("c-") else (),
        )
        for name in layers
    )
    version = folds[0] if folds and layers[0].startswith("c-") else layers[0]
    return Release(
        sequence=sequence, job=JOB, version=version, layers=made, reason="", published_at=iso(days_ago), checks={}
    )


def facts(version: str, days_ago: float, **more) -> VersionFacts:
    values = {"in_work": False, "done": True, "snapshot_folders": frozenset({f"snapshots/{version}"}), **more}
    outcome = frozenset({key("results", version), key("dead_letters", version)})
    return VersionFacts(version=version, active_s=NOW_S - days_ago * DAY_S, outcome_keys=outcome, **values)


def everything(*versions: str, days_ago: float = 50) -> list[Stored]:
    """Each kind of object of each version, and its converted input."""
    keys = [key(kind, name) for name in versions for kind in ("results", "dead_letters", "staging")]
    keys += [key("results", name, "hidden-aa.parquet") for name in versions]
    keys += [key("registry", name, leaf) for name in versions for leaf in ("spec.json", "plan-aa.json")]
    keys += [f"snapshots/{name}/{leaf}" for name in versions for leaf in ("manifest.json", "rows-00000.parquet")]
    return [Stored(key=name, size_bytes=10, modified_s=NOW_S - days_ago * DAY_S) for name in keys]


def judge(log, versions, stored, policy: Policy = POLICY, foreign=frozenset()) -> Verdict:
    return decide(
        policy,
        now_s=NOW_S,
        job=JOB,
        log=log,
        versions=versions,
        candidate=versions[-1].version if versions else None,
        foreign_folders=foreign,
        stored=stored,
    )


def gone(verdict: Verdict, version: str) -> dict[str, str]:
    """What goes of a version: kind of object, and why."""
    return {item.key.split("/")[0]: item.reason for item in verdict.doomed if f"/{version}/" in item.key}


def test_a_kept_release_keeps_its_versions():
    """Older than every limit, but read: only its staging goes."""
    verdict = judge([release(1, 400, "v-1")], [facts("v-1", 400), facts("v-2", 400)], everything("v-1", "v-2"))
    assert gone(verdict, "v-1") == {"staging": "staging of a published version"}
    assert gone(verdict, "v-2") == {}
    assert verdict.versions == {"v-1": "a kept release reads it", "v-2": "it is the candidate"}
    assert verdict.removed == ()


def test_a_version_that_nobody_reads_goes_whole():
    """Registration first, so that nobody sees a version whose objects are going; a young one stays."""
    versions = [facts("v-1", 8), facts("v-2", 6), facts("v-3", 1)]
    verdict = judge([], versions, everything("v-1", "v-2", "v-3"))
    assert set(gone(verdict, "v-1")) == {"registry", "results", "dead_letters", "staging", "snapshots"}
    assert gone(verdict, "v-2") == gone(verdict, "v-3") == {}
    assert [item.key for item in verdict.doomed[:2]] == [
        key("registry", "v-1", "spec.json"),
        "snapshots/v-1/manifest.json",
    ]
    assert verdict.removed == ("v-1",)
    assert verdict.versions["v-2"] == "it was worked on in the last 7 days"


def test_a_shard_that_works_keeps_its_version():
    """Registered a year ago, and a worker holds a shard of it now: nothing of it goes, staging least of all."""
    versions = [facts("v-1", 365, in_work=True, done=False), facts("v-2", 0)]
    assert gone(judge([], versions, everything("v-1")), "v-1") == {}


def test_a_folded_version_keeps_what_explains_its_rows():
    """A compaction took its rows over, and no kept release reads its own objects: registration, dead letters stay."""
    log = [release(1, 90, "v-1"), release(2, 80, "v-2", "v-1"), release(3, 70, "c-1", folds=("v-2", "v-1"))]
    verdict = judge(log, [facts("v-1", 90), facts("v-2", 80)], everything("v-1", "v-2"), Policy(keep_releases=1))
    assert set(gone(verdict, "v-1")) == {"results", "staging", "snapshots"}
    assert set(gone(verdict, "v-2")) == {"staging"}
    assert verdict.removed == ("v-1",)


def test_compacted_objects_go_when_no_kept_release_reads_them():
    """Old and unread: gone. Young: its release may be on its way."""
    log = [release(1, 90, "c-1", folds=("v-1",)), release(2, 80, "v-1")]
    old = [Stored(key=key("results", "c-1"), size_bytes=1, modified_s=NOW_S - 2 * DAY_S)]
    young = [Stored(key=key("results", "c-9"), size_bytes=1, modified_s=NOW_S - DAY_S / 2)]
    verdict = judge(log, [facts("v-1", 90)], old + young, Policy(keep_releases=1))
    assert [(item.key, item.reason) for item in verdict.doomed] == [
        (key("results", "c-1"), "compacted objects that no kept release reads")
    ]
    assert judge(log[:1], [facts("v-1", 90)], old).doomed == ()


def test_what_a_fenced_worker_left_goes():
    """Beside the object that the shard table names lies one of a worker that had lost its shard."""
    other = Stored(key=key("results", "v-1", "shard=00000-bb.parquet"), size_bytes=1, modified_s=NOW_S - 3 * DAY_S)
    verdict = judge([release(1, 3, "v-1")], [facts("v-1", 3)], [*everything("v-1"), other])
    assert gone(verdict, "v-1")["results"] == "written by a worker that had lost its shard"
    unpublished = judge([], [facts("v-1", 3)], [*everything("v-1"), other])
    assert unpublished.doomed == ()


def test_converted_input_of_another_job_stays():
    """Two jobs over one source share its conversion."""
    versions = [facts("v-1", 90), facts("v-2", 90)]
    assert "snapshots" not in gone(judge([], versions, everything("v-1"), foreign=frozenset({"snapshots/v-1"})), "v-1")


def test_other_places_are_left_alone():
    """Releases, audit lines, other jobs' objects and whatever else lies in the store."""
    keys = [f"releases/{JOB}/00000001.json", f"audit/{JOB}/x.json", "results/other/v-1/a", "notes/a", "registry/x"]
    stored = [Stored(key=name, size_bytes=1, modified_s=0) for name in keys]
    assert judge([], [], stored).doomed == ()


def test_which_releases_are_kept():
    """The last ten, those of the last thirty days, and the newest one whatever the settings say."""
    log = [release(number, 100 - number, "v-1") for number in range(1, 90)]
    assert kept_releases(log, POLICY, now_s=NOW_S) == frozenset(range(71, 90))
    assert kept_releases(log, Policy(keep_days=0), now_s=NOW_S) == frozenset(range(80, 90))
    assert kept_releases(log, Policy(keep_days=0, keep_releases=1), now_s=NOW_S) == {89}
    assert kept_releases([], POLICY, now_s=NOW_S) == frozenset()


def test_who_deletes_keeps_what_was_kept_yesterday():
    """A burst of releases within the margin: one that was kept before it is still kept by who deletes.

    Somebody may have begun a rollback to it when it was.
    """
    log = [release(number, 50, "v-1") for number in range(1, 4)] + [
        release(number, 0.5, "v-2") for number in range(4, 20)
    ]
    policy = Policy(keep_releases=2)
    now, yesterday = (kept_releases(log, policy, now_s=NOW_S, margin_s=margin) for margin in (0.0, DAY_S))
    assert now == frozenset(range(4, 20))
    assert yesterday == frozenset(range(2, 20))


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=15),
    st.integers(1, 12),
    st.floats(0, 60),
    st.floats(0, 0.99),
)
def test_whatever_a_rollback_may_begin_with_is_kept_for_a_day(ages, keep_releases, keep_days, begun_days_ago):
    """Any log: what was kept at some moment of the last day is what deleting keeps."""
    log = [release(number, age, "v-1") for number, age in enumerate(sorted(ages, reverse=True), start=1)]
    policy = Policy(keep_releases=keep_releases, keep_days=keep_days)
    then_s = NOW_S - begun_days_ago * DAY_S
    before = [item for item in log if seconds(item.published_at) <= then_s]
    kept = kept_releases(log, policy, now_s=NOW_S, margin_s=policy.margin_s)
    assert kept_releases(before, policy, now_s=then_s) <= kept


def test_a_rollback_goes_to_kept_releases_only():
    """Retention may be deleting an older one at this very moment."""
    log = [release(1, 400, "v-1"), release(2, 300, "v-2"), release(3, 200, "v-3")]
    assert rollback(log, to=1, reason="", published_at="").version == "v-1"
    with pytest.raises(UnknownVersion, match="BATCH_ASSETS_KEEP_RELEASES"):
        rollback(log, to=1, reason="", published_at="", kept=frozenset({2, 3}))
    assert rollback(log, to=None, reason="", published_at="", kept=frozenset({2, 3})).version == "v-2"


NAMES = st.sampled_from(["v-1", "v-2", "v-3", "v-4"])
RELEASES = st.lists(
    st.tuples(st.floats(0, 100), st.lists(st.one_of(NAMES, st.just("c-1")), min_size=1, max_size=3, unique=True)),
    max_size=6,
)
FACTS = st.lists(st.tuples(NAMES, st.floats(0, 100), st.booleans(), st.booleans()), unique_by=lambda item: item[0])


@given(RELEASES, FACTS, st.integers(1, 4), st.floats(0, 40), st.floats(0, 20), st.floats(0, 100))
def test_nothing_that_is_read_or_works_goes(releases, versions, keep_releases, keep_days, partial_days, modified_days):
    """Any log, versions and ages: objects of kept releases, registrations of rows, and versions in work stay."""
    ordered = sorted(releases, key=lambda item: -item[0])
    log = [release(n, age, *names, folds=("v-1", "v-2")) for n, (age, names) in enumerate(ordered, start=1)]
    known = [facts(name, age, in_work=work, done=done) for name, age, work, done in versions]
    policy = Policy(keep_releases=keep_releases, keep_days=keep_days, partial_days=partial_days)
    stored = everything("v-1", "v-2", "v-3", "v-4", "c-1", days_ago=modified_days)
    verdict = judge(log, known, stored, policy)
    doomed = {item.key for item in verdict.doomed}
    kept = [entry for entry in log if entry.sequence in kept_releases(log, policy, now_s=NOW_S)]
    assert not doomed & {item.key for entry in kept for layer in entry.layers for item in layer.named}
    rows_of = {name for entry in kept for layer in entry.layers for name in (layer.version, *layer.folds)}
    assert not doomed & {key("registry", name, "spec.json") for name in rows_of}
    for item in known:
        if item.in_work:
            assert item.version not in verdict.removed
            assert not {name for name in doomed if name.startswith("staging/") and item.version in name} or item.done
    assert not doomed & {
        f"snapshots/{name}/rows-00000.parquet" for name in verdict.versions if name not in ("v-1", "v-2")
    }
    assert len(doomed) == len(verdict.doomed)
