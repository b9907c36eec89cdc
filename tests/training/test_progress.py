"""What is decided from the errors of a run."""

import math
from dataclasses import replace

import pytest

from ebmm.training.progress import TRIES, Diverged, Progress
from ebmm.training.settings import Settings, Stage

SETTINGS = Settings(updates=10_000, stages=(Stage(2, 4, 3000), Stage(4, 2, 3000)), patience=500)


def after(progress, errors, settings=SETTINGS, updates=50):
    for error in errors:
        progress = progress.after(updates, error, 0, settings)
    return progress


def test_a_stage_ends_when_its_error_stalls():
    falling = after(Progress(), [10 * 0.9**i for i in range(40)])
    assert falling.stage == 0
    stalled = after(falling, [falling.smoothed] * 10)
    assert stalled.stage == 1
    assert stalled.stage_started == stalled.update


def test_a_stage_ends_when_its_updates_are_used_up():
    assert after(Progress(), [10 * 0.9**i for i in range(60)]).stage == 1


def test_the_last_stage_goes_on():
    assert after(Progress(stage=1), [5.0] * 200).stage == 1


def test_without_patience_a_stage_does_not_stall():
    assert after(Progress(), [5.0] * 59, replace(SETTINGS, patience=None)).stage == 0


def test_an_error_far_above_its_average_is_off():
    progress = after(Progress(), [5.0] * 6)
    assert not progress.is_off(50, 6.5, SETTINGS)
    assert progress.is_off(50, 8.0, SETTINGS)
    assert progress.is_off(50, float("nan"), SETTINGS)
    assert not progress.is_off(50, 8.0, replace(SETTINGS, roll_back=None))


def test_one_noisy_update_is_not_off_and_many_are():
    progress = after(Progress(), [5.0] * 6)
    assert not progress.is_off(1, 10.0, SETTINGS)
    progress = after(progress, [10.0] * 10, updates=1)
    assert not progress.is_off(1, 10.0, SETTINGS)
    assert after(progress, [10.0] * 20, updates=1).is_off(1, 10.0, SETTINGS)


def test_the_first_errors_of_a_stage_are_not_judged():
    assert not after(Progress(), [5.0]).is_off(50, 50.0, SETTINGS)


def test_an_error_of_zero_may_become_a_little_more():
    assert not after(Progress(), [0.02] * 6).is_off(50, 0.3, SETTINGS)
    assert after(Progress(), [0.02] * 6).is_off(50, 2.0, SETTINGS)


def test_an_update_without_a_finite_episode_is_let_go_and_many_are_not():
    progress = after(Progress(), [5.0] * 6)
    lost = after(progress, [float("nan")] * 10, updates=1)
    assert lost.smoothed == progress.smoothed
    assert not lost.is_off(1, float("nan"), SETTINGS)
    assert after(lost, [5.0], updates=1).lost == 0
    assert after(lost, [float("nan")] * 14, updates=1).is_off(1, float("nan"), SETTINGS)


def test_a_roll_back_lowers_the_rate_and_the_count_goes_on():
    progress = after(Progress(), [5.0] * 6)
    back = progress.rolled_back(50, Progress())
    assert back.update == 350
    assert back.rate_scale == pytest.approx(0.8)
    assert back.roll_backs == 1


def test_one_bad_moment_of_a_run_that_learns_quickly_costs_one_roll_back():
    """The older model has a higher error than the one that broke; it must not be called broken for that."""

    def error_at(update):
        return 30 * math.exp(-update / 400) + 0.3

    settings = Settings(updates=10_000, stages=(Stage(4, 4, 10_000),), patience=None)
    progress, learned, snapshots = Progress(), 0, [(Progress(), 0)]
    for _ in range(200):
        error = 500.0 if progress.update == 1450 else error_at(learned)
        if progress.is_off(25, error, settings):
            target, learned = snapshots[0]
            snapshots = snapshots[:1]
            progress = progress.rolled_back(25, target)
        else:
            learned += 25
            progress = progress.after(25, error, 0, settings)
        if progress.update % 500 == 0:
            snapshots = [*snapshots[-1:], (progress, learned)]
    assert progress.roll_backs == 1


def test_a_snapshot_of_another_stage_is_judged_anew():
    progress = after(Progress(stage=1), [5.0] * 6).rolled_back(50, after(Progress(), [3.0] * 6))
    assert progress.smoothed is None
    assert not progress.is_off(50, 50.0, SETTINGS)


def test_it_gives_up_when_rolling_back_no_longer_helps():
    progress = after(Progress(), [5.0] * 6)
    for _ in range(TRIES):
        progress = progress.rolled_back(50, progress)
    with pytest.raises(Diverged, match="Start again with a lower one or another seed"):
        progress.rolled_back(50, progress)
