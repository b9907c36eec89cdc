"""Learned step sizes keep their promises whatever meta-learning does to their parameters."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmm import ReadRates, WriteRates
from ebmm.core.rates import Decreasing

parameters = st.floats(-30, 30, width=32)


@settings(deadline=None, max_examples=50)
@given(first=parameters, logits=st.lists(parameters, max_size=6))
def test_read_rates_never_increase_and_are_never_negative(first, logits):
    values = np.asarray(Decreasing(jnp.float32(first), jnp.array(logits, jnp.float32))())
    assert values.shape == (len(logits) + 1,)
    assert (values >= 0).all()
    assert (np.diff(values) <= 0).all()


def test_starting_values_come_out_as_given():
    values = jnp.array([[0.5, 1e-5, 1e-3], [3.0, 1e-8, 20.0]])
    rates = WriteRates.starting_at(values, steps=4)()
    np.testing.assert_allclose(rates, jnp.broadcast_to(values, (4, 2, 3)), rtol=1e-4)
    read = ReadRates.starting_at(rate=0.3, momentum=0.1, decay=0.8, steps=3)
    np.testing.assert_allclose(read.rates(), [0.3, 0.24, 0.192], rtol=1e-5)
    np.testing.assert_allclose(read.momenta(), [0.1, 0.08, 0.064], rtol=1e-5)


def test_write_rates_are_never_negative():
    raw = jax.random.normal(jax.random.key(0), (5, 2, 3)) * 50
    assert (WriteRates(raw)() >= 0).all()
