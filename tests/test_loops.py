"""Settings of the loops change how gradients are computed, not what they are, until a limit bites."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import small_rnn, strings

from ebmm import reconstruction_loss
from ebmm.gradients import limit_cotangent
from ebmm.loops import Loop

LOOPS = [
    Loop(keep="products"),
    Loop(keep="nothing"),
    Loop(cotangent_limit=1e9),
    Loop(keep="products", unroll=True),
]


@pytest.fixture(scope="module")
def gradient_of():
    patterns, queries = strings(4, 6), strings(4, 6, seed=1)
    model = small_rnn()
    return lambda loop: eqx.filter_jit(eqx.filter_grad(reconstruction_loss))(
        replace(model, loop=loop), patterns, queries
    )


@pytest.mark.parametrize("loop", LOOPS)
def test_the_meta_gradient_is_the_same(gradient_of, loop):
    plain, other = (jax.tree.leaves(gradient_of(each)) for each in (Loop(), loop))
    for a, b in zip(plain, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_a_limit_shortens_what_comes_back_through_the_memory(gradient_of):
    free, limited = (gradient_of(Loop(cotangent_limit=limit)) for limit in (None, 1e-3))
    writing = optax.tree.norm(free.write_rates)
    assert optax.tree.norm(limited.write_rates) < 0.1 * writing
    np.testing.assert_allclose(free.read_rates.rates.logits, limited.read_rates.rates.logits, rtol=1e-4)


def test_a_cotangent_is_clipped_at_the_norm_of_the_whole_tree():
    def loss(tree, limit):
        held = limit_cotangent(tree, limit)
        return 3 * held["a"] + 4 * held["b"]

    tree = {"a": jnp.array(1.0), "b": jnp.array(2.0)}
    gradient = jax.grad(loss)(tree, 1.0)
    assert gradient["a"] == pytest.approx(0.6)
    assert gradient["b"] == pytest.approx(0.8)
    assert jax.grad(loss)(tree, 10.0) == {"a": 3.0, "b": 4.0}
    assert loss(tree, 1.0) == 11
