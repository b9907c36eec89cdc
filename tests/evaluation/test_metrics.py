"""The metrics are what their names say."""

import jax.numpy as jnp
import numpy as np
import pytest

from ebmm.evaluation.metrics import hamming, squared_error


@pytest.mark.parametrize("domain", [(0.0, 1.0), (-1.0, 1.0)])
def test_hamming_counts_values_on_the_wrong_side_of_the_middle(domain, rng):
    low, high = domain
    stored = rng.choice([low, high], (4, 5, 2))
    recalled = rng.uniform(low, high, (4, 5, 2))
    nearest = np.where(np.abs(recalled - high) < np.abs(recalled - low), high, low)
    assert hamming(jnp.asarray(recalled), jnp.asarray(stored), domain) == np.sum(nearest != stored)


def test_squared_error_is_a_sum_over_all_dimensions(rng):
    recalled, stored = rng.random((2, 3, 4, 2))
    expected = np.sum((recalled - stored) ** 2)
    assert squared_error(jnp.asarray(recalled), jnp.asarray(stored), None) == pytest.approx(expected, rel=1e-5)


def test_hamming_needs_a_middle():
    with pytest.raises(ValueError, match="use the squared error"):
        hamming(jnp.zeros(3), jnp.zeros(3), None)


def test_what_is_no_number_is_wrong():
    assert hamming(jnp.array([jnp.nan, jnp.nan, 1.0]), jnp.array([0.0, 1.0, 1.0]), (0.0, 1.0)) == 2
