"""What is decided from the errors of a run."""

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
    assert progress.is_off(1, float("nan"), SETTINGS)
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
    assert not after(Progress(), [0.0] * 6).is_off(50, 0.04, SETTINGS)


def test_a_roll_back_lowers_the_rate_and_the_count_goes_on():
    progress = after(Progress(), [5.0] * 6).rolled_back(50)
    assert progress.update == 350
    assert progress.rate_scale == pytest.approx(0.8)
    assert progress.roll_backs == 1


def test_it_gives_up_when_rolling_back_no_longer_helps():
    progress = after(Progress(), [5.0] * 6)
    for _ in range(TRIES):
        progress = progress.rolled_back(50)
    with pytest.raises(Diverged, match="Start again with a lower one or another seed"):
        progress.rolled_back(50)
