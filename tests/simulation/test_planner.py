"""The planner's model: the published table, our mode beside it, and what it recommends."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from batch_assets.domain.capacity.question import Answer, Mode, Question
from batch_assets.domain.capacity.recommend import candidates, recommend
from batch_assets.domain.errors import UserError
from batch_assets.simulation.planner import answers, draws, recommended, row

# mode, shard size: makespan h, lost GPU-h, duplicate rows; 2,000,000 records, 20 workers, seeds 0 to 4.
PUBLISHED = {
    (Mode.SHARD_APPEND, 500): (2.02, 4.0, 5_100),
    (Mode.SHARD_APPEND, 5_000): (1.94, 4.7, 44_000),
    (Mode.SHARD_APPEND, 25_000): (2.56, 10.3, 165_000),
    (Mode.SHARD_KEYED, 500): (2.02, 4.0, 0),
    (Mode.SHARD_KEYED, 5_000): (1.94, 4.7, 0),
    (Mode.SHARD_KEYED, 25_000): (2.56, 10.3, 0),
    (Mode.ITEM_KEYED, 500): (2.01, 3.9, 0),
    (Mode.ITEM_KEYED, 5_000): (1.81, 3.6, 0),
    (Mode.ITEM_KEYED, 25_000): (1.88, 3.7, 0),
}
OURS = Question(mode=Mode.EPOCH_PARTS, shard_size=5_000)
CONDITIONS = [
    {},
    {"mtbi_s": 1_200.0},
    {"stall_share": 0.5},
    {"mtbi_s": 1_200.0, "stall_share": 0.5},
    {"waves": True},
    {"waves": True, "mtbi_s": 1_200.0},
    {"waves": True, "stall_share": 0.5},
]
ENOUGH = 60  # runs, so that the luck of the last shards is a percent


@pytest.mark.parametrize(("mode", "shard_size"), PUBLISHED)
def test_the_published_table_is_reproduced_draw_for_draw(mode: Mode, shard_size: int) -> None:
    """Each cell, as it is printed: makespan to the hundredth, lost hours to the tenth, duplicate rows exactly."""
    found = row(Question(mode=mode, shard_size=shard_size), 5, draws(published=True))
    shown = (round(found.makespan_h, 2), round(found.lost_gpu_h, 1), found.duplicate_rows)
    makespan_h, lost_gpu_h, duplicates = PUBLISHED[mode, shard_size]
    # 1.935 h rounds either way by its last bit.
    assert shown[0] == pytest.approx(makespan_h, abs=0.0051)
    assert shown[1:] == (lost_gpu_h, duplicates)


@pytest.mark.parametrize(("mode", "shard_size"), PUBLISHED)
def test_our_own_draws_give_the_same_table_within_sampling_error(mode: Mode, shard_size: int) -> None:
    """Means over 40 seeds of either kind of draws lie within three standard errors of each other.

    The five published seeds are unlucky ones (3.9 lost hours at 500, where either kind has 3.0 over 80 seeds), so five
    are not what this compares.
    """
    question = Question(mode=mode, shard_size=shard_size)
    kinds = [answers(question, 40, draws(published=published)) for published in (True, False)]
    for name in ("makespan_s", "lost_gpu_s"):
        theirs, ours = ([getattr(answer, name) for answer in played] for played in kinds)
        error = math.sqrt((statistics.variance(theirs) + statistics.variance(ours)) / 40)
        assert abs(statistics.fmean(theirs) - statistics.fmean(ours)) <= 3 * error


@pytest.mark.parametrize("notice", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_ours_is_no_worse_than_item_keyed(condition: dict[str, float | bool], *, notice: bool) -> None:
    """At 5,000 records a shard: fewer GPU-hours lost, no longer a makespan (2% is these seeds' sampling error)."""
    ours = row(replace(OURS, notice=notice, **condition), ENOUGH, draws(published=False))
    theirs = row(replace(OURS, mode=Mode.ITEM_KEYED, **condition), ENOUGH, draws(published=False))
    assert ours.duplicate_rows == 0
    assert ours.lost_gpu_h < theirs.lost_gpu_h
    assert ours.makespan_h <= theirs.makespan_h * 1.02


def test_an_interruption_costs_seconds_of_work_whatever_the_shard_size() -> None:
    """Beyond the model load that any death costs, ours loses the window and what came since the last part (I8)."""
    for shard_size in (500, 25_000):
        question = Question(mode=Mode.EPOCH_PARTS, shard_size=shard_size, stall_share=0.0, load_s=0.0)
        lost_s = statistics.fmean(a.lost_gpu_s for a in answers(question, 5, draws(published=False)))
        work_s = question.records / question.rate
        interruptions = work_s / question.mtbi_s
        assert lost_s / interruptions < question.part_interval_s + question.window / question.rate


def test_without_interruptions_nothing_is_lost_and_the_time_is_the_works() -> None:
    """A run of known length: one load, then each worker's shards one after the other."""
    for mode in Mode:
        question = Question(mode=mode, shard_size=1_000, records=40_000, workers=4, rate=10.0, mtbi_s=1e12)
        (answer,) = answers(question, 1, draws(published=True))
        assert answer == Answer(makespan_s=answer.makespan_s, lost_gpu_s=0.0, duplicate_rows=0)
        # Item-keyed, and ours like it, count a shard when it is taken: up to one shard's work earlier.
        assert 180 + 9 * 103 <= answer.makespan_s <= 180 + 10 * 103


def test_a_run_that_cannot_end_says_so() -> None:
    """A shard of 22 minutes is never finished by workers that die every minute: null, not an endless loop."""
    question = Question(
        mode=Mode.SHARD_APPEND, shard_size=25_000, records=50_000, workers=2, mtbi_s=60.0, stall_share=0.0
    )
    found = row(question, 1, draws(published=False))
    assert found.to_json()["makespan_h"] is None


def test_a_seed_gives_the_same_interruptions_to_every_mode() -> None:
    """Modes are compared under the same luck: each worker's stream is drawn ahead from the seed."""
    chance = draws(published=False)
    for waves in (False, True):
        streams = []
        for mode in (Mode.ITEM_KEYED, Mode.EPOCH_PARTS):
            drawn = chance(replace(OURS, mode=mode, waves=waves), 7)
            streams.append([drawn.until_interruption_s(worker, 0.0) for worker in range(20)])
        assert streams[0] == streams[1]
        assert (len(set(streams[0])) < 20) == waves


def test_a_wave_takes_half_of_the_workers_at_the_published_rate() -> None:
    """Each worker is struck once per `mtbi_s` on average, with others at the very same moment."""
    question = replace(OURS, waves=True, mtbi_s=100.0)
    drawn = draws(published=False)(question, 1)
    moments: list[float] = []
    now_s = 0.0
    while now_s < 100_000:
        now_s += drawn.until_interruption_s(3, now_s)
        moments.append(now_s)
    assert len(moments) == pytest.approx(1_000, rel=0.15)


def test_more_interruptions_ask_for_smaller_shards() -> None:
    """What is recommended at 10 minutes between interruptions is not larger than at a day."""
    often = recommended(replace(OURS, mtbi_s=600.0, records=400_000), 5, draws(published=False))
    rarely = recommended(replace(OURS, mtbi_s=86_400.0, records=400_000), 5, draws(published=False))
    assert often.shard_size <= rarely.shard_size


def test_the_largest_good_size_is_recommended() -> None:
    """Sizes within 3% of the fastest are as good; the largest of them has the fewest shards."""
    found = recommend({500: 110.0, 2_000: 100.0, 5_000: 102.0, 10_000: 104.0})
    assert found.shard_size == 5_000
    assert "2,000" in found.reason


def test_candidates_fit_the_plan_and_the_fleet() -> None:
    """No size makes more shards than a plan may have, or leaves workers without one; there is always one."""
    assert candidates(2_000_000, 20)[0] == 500
    assert min(candidates(1_000_000_000, 20)) == 10_000
    assert candidates(100, 20) == (5,)


@pytest.mark.parametrize(
    "wrong", [{"rate": 0.0}, {"mtbi_s": -1.0}, {"stall_share": 1.5}, {"rate": math.nan}, {"lease_s": -1.0}]
)
def test_numbers_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    """The message names the field."""
    with pytest.raises(UserError, match=next(iter(wrong))):
        Question(mode=Mode.ITEM_KEYED, shard_size=500, **wrong)
