"""The presets and the learning rate."""

import pytest

from ebmm.initial import PAPER
from ebmm.training.settings import Settings, Stage, paper

STAGES = (Stage(2, 2, 10),)


def test_the_rate_rises_stays_and_falls():
    settings = Settings(updates=100, stages=STAGES, learning_rate=1.0, warm_up=9, decay=0.4)
    assert settings.rate_at(0) == pytest.approx(0.1)
    assert settings.rate_at(9) == settings.rate_at(60) == 1.0
    assert settings.rate_at(80) == pytest.approx(0.5)
    assert settings.rate_at(100) == 0


def test_a_plan_by_the_clock_follows_the_seconds():
    settings = Settings(updates=1, minutes=2.0, stages=STAGES, learning_rate=1.0, warm_up=9, decay=0.5)
    assert settings.rate_at(0, 0.0) == pytest.approx(0.1)
    assert settings.rate_at(500, 60.0) == 1.0
    assert settings.rate_at(500, 90.0) == pytest.approx(0.5)
    assert settings.rate_at(500, 130.0) == 0
    assert settings.share_done(500, 120.0) == 1


def test_without_a_decay_the_rate_stays():
    assert Settings(updates=10, stages=STAGES, learning_rate=1.0, warm_up=0, decay=0.0).rate_at(9) == 1.0


def test_the_papers_preset_has_the_papers_numbers_and_nothing_else():
    settings = paper(updates=10, stage=STAGES[0])
    assert (settings.learning_rate, settings.weight_decay, settings.clip) == (5e-5, 1e-6, 0.05)
    assert settings.initial is PAPER
    assert settings.rate_at(0) == settings.rate_at(9) == 5e-5
    assert settings.step_size_factor == 1
    assert not any((settings.episode_clip, settings.cotangent_limit, settings.roll_back, settings.average))
    assert not settings.augment


@pytest.mark.parametrize(
    "wrong",
    [
        {"stages": ()},
        {"updates": 0},
        {"snapshot": 0},
        {"decay": 1.5},
        {"warm_up": -1},
        {"minutes": 0.0},
        {"copies": 0},
        {"last_steps": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        Settings(**({"updates": 10, "stages": STAGES} | wrong))


def test_a_stage_needs_patterns_episodes_and_updates():
    with pytest.raises(ValueError, match="at least one pattern"):
        Stage(0, 1, 1)
