"""Meta-learning makes a memory that recalls better than it did."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ebmm import meta_learning, new_model, string_episode


def test_episodes_of_strings_are_what_they_say():
    patterns, queries, known = jax.jit(partial(string_episode, patterns=500, bits=32))(jax.random.key(0))
    assert set(np.unique(patterns)) == set(np.unique(queries)) == {-1.0, 1.0}
    np.testing.assert_array_equal(known.sum(axis=1), 16)
    np.testing.assert_array_equal(np.where(known, queries, 0), np.where(known, patterns, 0))
    assert abs((queries != patterns).sum(axis=1).mean() - 8) < 0.5  # half of the 16 resampled bits
    assert abs(known.mean(axis=0) - 0.5).max() < 0.1  # every place alike
    assert len(np.unique(np.asarray(known), axis=0)) > 400


def test_meta_learning_lowers_the_loss():
    network = eqx.nn.MLP(8, "scalar", width_size=16, depth=1, activation=jnp.tanh, key=jax.random.key(0))
    sample = partial(string_episode, patterns=2, bits=8)
    start = sample(jax.random.key(1)).patterns
    model = new_model(network, start, where=lambda e: e.layers[0], domain=(-1.0, 1.0), write_steps=2, read_steps=2)
    learning = meta_learning(model, sample, updates=150, key=jax.random.key(2), learning_rate=1e-2)
    losses = [float(loss) for _, loss in learning]
    assert len(losses) == 150
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:20])
