"""Half precision is an energy's own arithmetic alone, and its gradients neither vanish nor overflow."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_conv, small_rnn, strings

from ebmm import new_model
from ebmm.core.precision import LOSS_SCALE, InHalfPrecision, in_half_precision
from ebmm.core.writing import writing_gradients
from ebmm.layers import LayerNorm
from ebmm.loops import Loop


@pytest.mark.parametrize("model", [small_rnn(), small_conv()], ids=["rnn", "conv"])
def test_the_energy_is_rounded_and_nothing_else(model):
    """To some digits it is the same energy, though not to the last; memory, patterns and result keep their type."""
    half = in_half_precision(model)
    patterns = jax.random.uniform(jax.random.key(0), (2, *model.pattern_shape))
    exact, rounded = (each.energies(each.initial_state, patterns) for each in (model, half))
    assert rounded.dtype == jnp.float32
    assert not np.array_equal(exact, rounded)
    np.testing.assert_allclose(rounded, exact, rtol=1e-2, atol=3e-3)
    assert {leaf.dtype for leaf in jax.tree.leaves(half.initial_state)} == {jnp.dtype("float32")}
    products = [line for line in str(jax.make_jaxpr(half.energy)(patterns[0])).splitlines() if "= dot_general" in line]
    assert products
    assert all(":f16[" in line for line in products)


def test_layers_are_found_whatever_names_them():
    class Nested(eqx.Module):
        layers: dict

        def __call__(self, x):
            return jnp.sum(jnp.tanh(self.layers["last"](x)))

    energy = Nested({"last": eqx.nn.Linear(3, 2, key=jax.random.key(0))})
    model = new_model(energy, strings(2, 3), where=lambda e: (e.layers["last"],), domain=(-1.0, 1.0), write_steps=1)
    half = in_half_precision(model)
    written, exact = (each.write(strings(2, 3)) for each in (half, model))
    for one, other in zip(jax.tree.leaves(written), jax.tree.leaves(exact), strict=True):
        assert one.dtype == jnp.float32
        np.testing.assert_allclose(one, other, atol=1e-2)


def test_limits_are_those_of_the_scaled_loss():
    model = small_rnn()
    assert in_half_precision(model).loop == model.loop
    limited = replace(model, loop=Loop(cotangent_limit=512.0))
    assert in_half_precision(limited).loop == Loop(cotangent_limit=512.0 * LOSS_SCALE)


def test_a_norm_of_large_numbers_is_finite_in_half_precision():
    """Their squares are not: 300² is more than 65,504."""
    norm = LayerNorm(4)
    large = 300 * jax.random.normal(jax.random.key(0), (3, 3, 4))
    found = jax.tree.map(lambda a: a.astype(jnp.float16), norm)(large.astype(jnp.float16))
    assert found.dtype == jnp.float16
    np.testing.assert_allclose(found, norm(large), atol=5e-3)


def test_steep_slopes_are_written_in_half_precision():
    """The slope is 300 and, times 1000, would be a number inside the energy; half precision ends at 65,504."""

    class Steep(eqx.Module):
        memory: eqx.nn.Linear

        def __call__(self, x):
            return jnp.sum(self.memory(jnp.tanh(1000 * x)))

    memory = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    memory = eqx.tree_at(lambda layer: layer.weight, memory, jnp.array([[0.3, -0.3]]))
    patterns = jnp.array([[1e-3, 2e-3], [-5e-4, 1e-3]])
    exact = writing_gradients(Steep(memory), lambda e: e.memory, (memory,), patterns)
    half = InHalfPrecision(Steep(memory))
    rounded = writing_gradients(half, lambda e: e.energy.memory, (memory,), patterns)
    assert float(jnp.max(jnp.abs(exact[1][0].weight))) > 65504
    for one, other in zip(jax.tree.leaves(rounded), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2)
