"""What an update needs of memory, told by XLA; times are not tested."""

import pytest

from ebmm.training.speed import largest_batch, update_speed


@pytest.fixture(scope="module")
def small(shallow, string_episodes):
    rows = [update_speed(shallow, string_episodes, episodes=n, group=n, work=1.0, repeats=1) for n in (8, 64)]
    return shallow, string_episodes, rows


def test_the_largest_batch_fills_the_memory(small):
    model, sample, rows = small
    limit = 1e6 * 2 * rows[1]["peak_megabytes"]
    found = largest_batch(model, sample, rows, limit=limit)
    assert 0.85 * limit < 1e6 * found["peak_megabytes"] <= limit
    assert found["episodes"] > 64
    assert found["milliseconds"] > 0


def test_one_number_of_episodes_tells_no_growth(small):
    model, sample, rows = small
    with pytest.raises(ValueError, match="expected two"):
        largest_batch(model, sample, rows[:1], limit=1e9)


def test_a_limit_that_nothing_fits_into(small):
    model, sample, rows = small
    with pytest.raises(MemoryError, match="fits into"):
        largest_batch(model, sample, rows, limit=1.0, tries=1)
