"""The variational auto-encoder and its attractor reading."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from conftest import images

from ebmm.baselines.vae import VAE, divergence
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
    return VAE((9,), latents=4, hidden=8, read_steps=3, read_rate=0.02, key=jax.random.key(0))


def bernoulli(logits, pattern):
    """−log p(x | z) from probabilities."""
    chance = oracles.sigmoid(np.asarray(logits, np.float64))
    return -np.sum(pattern * np.log(chance) + (1 - pattern) * np.log(1 - chance))


def test_the_divergence_is_that_of_two_gaussians(rng):
    """Against the integral of q log(q / p), one latent at a time on a fine grid."""
    mean, log_scale = rng.normal(size=3), rng.normal(size=3) / 2
    grid = np.linspace(-30, 30, 600_001)
    expected = 0.0
    for m, s in zip(mean, np.exp(log_scale), strict=True):
        log_q, log_p = -(((grid - m) / s) ** 2) / 2 - np.log(s), -(grid**2) / 2
        expected += np.sum(np.exp(log_q) * (log_q - log_p)) * (grid[1] - grid[0]) / np.sqrt(2 * np.pi)
    assert divergence(jnp.asarray(mean), jnp.asarray(log_scale)) == pytest.approx(expected, rel=1e-4)


def test_the_loss_is_likelihood_and_divergence_of_the_pattern(small):
    """With scales so small that the sample is the mean, both terms follow from what the networks put out."""
    bias = jnp.concatenate([jnp.zeros(4), jnp.full(4, -12.0)])
    sharp = eqx.tree_at(
        lambda m: (m.posterior.weight, m.posterior.bias), small, (small.posterior.weight.at[4:].set(0), bias)
    )
    patterns, queries = images(2, 9), images(2, 9, seed=1)
    expected = 0.0
    for pattern in patterns:
        mean, _ = sharp.encode(pattern)
        expected += bernoulli(sharp.codec.decode_logits(mean), np.asarray(pattern))
        expected += np.sum(np.asarray(mean) ** 2 + np.exp(-24.0) - 1 + 24) / 2
    loss, recalled = sharp.loss(patterns, queries, key=jax.random.key(1))
    assert loss == pytest.approx(expected / 2, rel=1e-3)
    np.testing.assert_allclose(recalled[0], sharp.codec.decode(sharp.encode(queries[0])[0]), atol=1e-5)


def test_the_loss_samples_the_latents(small):
    patterns = images(2, 9)
    losses = [small.loss(patterns, patterns, key=jax.random.key(seed))[0] for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_the_energy_is_the_joint_likelihood(small):
    pattern, latents = images(1, 9)[0], jnp.array([0.5, -1.0, 2.0, 0.0])
    prior = -np.sum(np.log(np.exp(-(np.asarray(latents) ** 2) / 2) / np.sqrt(2 * np.pi)))
    expected = prior + bernoulli(small.codec.decode_logits(latents), np.asarray(pattern))
    assert small.energy(pattern, latents) == pytest.approx(expected, rel=1e-5)
    at_mean = small.energy(pattern, small.encode(pattern)[0])
    assert small.energies((), pattern[None])[0] == pytest.approx(float(at_mean), rel=1e-5)


def test_reading_alternates_between_latents_and_pattern(small, float64):
    """Finite differences for the step on z, and the better end for every pixel."""
    model = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), small)
    query = images(1, 9).astype(jnp.float64)[0]
    pattern, latents, expected = query, np.asarray(model.encode(query)[0]), []
    for _ in range(3):
        slope = oracles.gradient(lambda z, x=pattern: float(model.energy(x, jnp.asarray(z))), latents)
        latents = latents - 0.02 * slope
        logits = np.asarray(model.codec.decode_logits(jnp.asarray(latents)))
        pattern = jnp.asarray((logits > 0).astype(float))
        expected.append(pattern)
    out = model.read((), query[None])
    np.testing.assert_array_equal(out.trajectory[:, 0], np.stack(expected))
    np.testing.assert_allclose(out.energies[-1, 0], model.energy(pattern, jnp.asarray(latents)), rtol=1e-6)


def test_each_step_lowers_the_energy():
    model = VAE((9,), latents=4, hidden=8, read_steps=20, read_rate=1e-3, key=jax.random.key(0))
    energies = np.asarray(model.read((), images(4, 9)).energies)
    assert energies.shape == (21, 4)
    assert np.all(np.diff(energies, axis=0) <= 1e-3)


def test_known_dimensions_are_clamped_and_nothing_is_stored(small):
    queries = images(3, 9)
    known = jax.random.bernoulli(jax.random.key(3), 0.5, queries.shape)
    state = small.write(queries)
    out = small.read(state, queries, known=known)
    assert small.memory_size == len(jax.tree.leaves(state)) == len(jax.tree.leaves(small.initial_state)) == 0
    assert np.all(np.asarray(out.trajectory == queries)[:, np.asarray(known)])
    assert np.isin(np.asarray(out.patterns)[~np.asarray(known)], (0.0, 1.0)).all()


def test_training_lowers_the_bound():
    model = VAE((8,), domain=(-1.0, 1.0), latents=4, hidden=16, key=jax.random.key(0))
    settings = Settings(updates=1, stages=(Stage(4, 2, 1),))
    indices, rates = np.arange(200), np.full(200, 1e-2, np.float32)
    episodes, learner = Episodes(Repeated(), ResampledBits(0.5), 4), Learner.of(model, settings)
    _, report = run_updates(learner, episodes, 2, "hamming", settings, jax.random.key(1), indices, rates)
    assert report.loss[-20:].mean() < 0.7 * report.loss[:20].mean()


@pytest.mark.parametrize("wrong", [{"domain": None}, {"latents": 0}, {"read_steps": 0}, {"read_rate": 0.0}])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        VAE(**({"pattern_shape": (8, 8, 1), "key": jax.random.key(0)} | wrong))


def test_the_same_network_can_be_read_in_other_steps(small):
    queries = images(2, 9)
    other = small.read_with(steps=2, rate=0.02)
    assert (other.read_steps, other.latents) == (2, 4)
    expected, found = small.read((), queries), other.read((), queries)
    np.testing.assert_array_equal(found.trajectory, expected.trajectory[:2])
    faster = small.read_with(steps=3, rate=0.2).read((), queries)
    assert not np.array_equal(faster.energies[-1], expected.energies[-1])
