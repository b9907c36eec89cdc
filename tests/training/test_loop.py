"""Meta-learning makes a memory that recalls better than it did."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmm import meta_learning, new_model, string_episode
from ebmm.gradients import mean_of_clipped


def test_episodes_of_strings_are_what_they_say():
    patterns, queries, known = jax.jit(partial(string_episode, patterns=500, bits=32))(jax.random.key(0))
    assert set(np.unique(patterns)) == set(np.unique(queries)) == {-1.0, 1.0}
    np.testing.assert_array_equal(known.sum(axis=1), 16)
    np.testing.assert_array_equal(np.where(known, queries, 0), np.where(known, patterns, 0))
    assert abs((queries != patterns).sum(axis=1).mean() - 8) < 0.5  # half of the 16 resampled bits
    assert abs(known.mean(axis=0) - 0.5).max() < 0.1  # every place alike
    assert len(np.unique(np.asarray(known), axis=0)) > 400


sample = partial(string_episode, patterns=2, bits=8)


def small_mlp():
    network = eqx.nn.MLP(8, "scalar", width_size=16, depth=1, activation=jnp.tanh, key=jax.random.key(0))
    start = sample(jax.random.key(1)).patterns
    return new_model(network, start, where=lambda e: e.layers[0], domain=(-1.0, 1.0), write_steps=2, read_steps=2)


def test_meta_learning_lowers_the_loss():
    learning = meta_learning(small_mlp(), sample, updates=150, key=jax.random.key(2), learning_rate=1e-2)
    losses = [float(loss) for _, loss in learning]
    assert len(losses) == 150
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:20])


def test_one_episode_cannot_carry_the_mean_away():
    gradients = {"a": jnp.array([[3.0, 4.0], [0.0, 5.0], [300.0, 400.0]]), "b": jnp.zeros(3)}  # norms 5, 5 and 500
    clipped = mean_of_clipped(gradients)
    np.testing.assert_allclose(clipped["a"], np.array([3 + 0 + 6, 4 + 5 + 8]) / 3, rtol=1e-6)
    assert clipped["b"] == 0


def test_gradients_that_vanish_or_are_not_finite_leave_no_trace():
    some = {"a": jnp.array([[3.0, 4.0], [jnp.nan, 1.0], [jnp.inf, 0.0], [3.0, 4.0]])}
    np.testing.assert_allclose(mean_of_clipped(some)["a"], [3, 4], rtol=1e-6)
    for nothing in (jnp.zeros((4, 2)), jnp.full((4, 2), jnp.nan)):
        np.testing.assert_array_equal(mean_of_clipped({"a": nothing})["a"], 0)


def test_a_single_update_works_and_none_is_refused():
    model = small_mlp()
    ((after, _),) = meta_learning(model, sample, updates=1, key=jax.random.key(0), episodes=2)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(after, eqx.is_array)))
    with pytest.raises(ValueError, match="at least one of each"):
        meta_learning(model, sample, updates=0, key=jax.random.key(0))
