"""The denoising auto-encoder, which has no memory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, strings

from ebmm.baselines.autoencoder import AutoEncoder
from ebmm.data.distortions import ResampledBits
from ebmm.data.episodes import Episodes
from ebmm.data.images import AbstractPatterns
from ebmm.interface import Domain
from ebmm.training.settings import Settings, Stage
from ebmm.training.update import Learner, run_updates


class Repeated(AbstractPatterns):
    """Two random bits, each four times over: what a network without memory can learn of strings."""

    pattern_shape: tuple[int, ...] = eqx.field(static=True, default=(8,))
    domain: Domain = eqx.field(static=True, default=(-1.0, 1.0))

    def draw(self, count, *, key):
        return jnp.repeat(jnp.where(jax.random.bernoulli(key, 0.5, (count, 2)), 1.0, -1.0), 4, axis=1)


@pytest.fixture(scope="module")
def small():
    return AutoEncoder((9,), code=4, hidden=8, key=jax.random.key(0))


def test_nothing_is_stored(small):
    """What is written makes no difference to what is read."""
    queries = images(2, 9)
    states = small.write(queries), small.write(1 - queries), small.initial_state
    first, *others = (small.read(state, queries).patterns for state in states)
    assert small.memory_size == len(jax.tree.leaves(states)) == 0
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_reading_is_encoding_and_decoding_each_query_by_itself(small):
    queries = images(3, 9)
    out = small.read((), queries)
    assert out.trajectory.shape == (1, 3, 9)
    assert out.energies is small.energies((), queries) is None
    np.testing.assert_allclose(out.patterns[1], small.codec.decode(small.codec.encode(queries[1])), atol=1e-5)
    assert small.codec.encode(queries[0]).shape == (4,)  # nothing gets past the bottleneck


def test_the_loss_is_the_squared_error_of_the_pattern_not_of_the_query(small):
    patterns, queries = images(3, 9), images(3, 9, seed=1)
    loss, recalled = small.loss(patterns, queries)
    np.testing.assert_allclose(recalled, small.read((), queries).patterns, atol=1e-6)
    np.testing.assert_allclose(loss, np.sum((np.asarray(recalled) - np.asarray(patterns)) ** 2) / 3, rtol=1e-5)


def test_known_dimensions_are_clamped():
    model = AutoEncoder((12,), domain=(-1.0, 1.0), code=4, hidden=8, key=jax.random.key(0))
    queries = strings(3, 12)
    known = jax.random.bernoulli(jax.random.key(3), 0.5, queries.shape)
    out = model.read((), queries, known=known)
    assert np.all(np.asarray(out.patterns == queries)[np.asarray(known)])
    assert np.any(np.asarray(out.patterns != queries))
    assert jnp.abs(out.patterns).max() <= 1


def test_training_lowers_the_loss():
    model = AutoEncoder((8,), domain=(-1.0, 1.0), code=4, hidden=16, key=jax.random.key(0))
    settings = Settings(updates=1, stages=(Stage(4, 2, 1),))
    indices, rates = np.arange(200), np.full(200, 1e-2, np.float32)
    episodes, learner = Episodes(Repeated(), ResampledBits(0.5), 4), Learner.of(model, settings)
    _, report = run_updates(learner, episodes, 2, "hamming", settings, jax.random.key(1), indices, rates)
    assert report.loss[-20:].mean() < 0.7 * report.loss[:20].mean()


def test_a_pattern_shape_without_channels_is_refused():
    with pytest.raises(ValueError, match="got.*expected"):
        AutoEncoder((8, 8), key=jax.random.key(0))
