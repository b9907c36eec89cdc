"""The Dynamic Kanerva Machine: Bayes' rule on a matrix of slots, and attractor reading."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import strings

from ebmm.baselines.kanerva import Belief, KanervaMachine, addressing, memory_divergence, observed, weights_divergence
from ebmm.training.settings import Settings, Stage
from ebmm.training.update import Learner, run_updates

SLOTS, CODE, NOISE = 4, 6, 0.3


@pytest.fixture(scope="module")
def small():
    """Strings are their own code: quick to compile, and all that is tested here is what happens to codes."""
    return KanervaMachine((7,), domain=(-1.0, 1.0), slots=3, read_steps=2, key=jax.random.key(0))


@pytest.fixture
def problem(rng):
    """A prior with correlated slots, and five weighted observations."""
    root = rng.normal(size=(SLOTS, SLOTS))
    prior = rng.normal(size=(SLOTS, CODE)), root @ root.T + 0.5 * np.eye(SLOTS)
    return prior, rng.normal(size=(5, SLOTS)), rng.normal(size=(5, CODE))


def in_sequence(prior, weights, codes):
    belief = Belief(*map(jnp.asarray, prior))
    variances = []
    for w, z in zip(weights, codes, strict=True):
        belief, predicted = observed(belief, jnp.asarray(w), jnp.asarray(z), jnp.asarray(NOISE))
        variances.append(predicted)
    return belief, variances


def test_the_update_is_the_linear_gaussian_posterior(problem, float64):
    """All five at once by the formula with precisions: U' = (U⁻¹ + WᵀW/σ²)⁻¹ and R' = U' (U⁻¹R + WᵀZ/σ²)."""
    (mean, covariance), weights, codes = problem
    precision = np.linalg.inv(covariance)
    new_covariance = np.linalg.inv(precision + weights.T @ weights / NOISE)
    new_mean = new_covariance @ (precision @ mean + weights.T @ codes / NOISE)
    belief, _ = in_sequence(*problem)
    np.testing.assert_allclose(belief.covariance, new_covariance, atol=1e-10)
    np.testing.assert_allclose(belief.mean, new_mean, atol=1e-10)


def test_the_order_of_observations_does_not_matter(problem, float64):
    prior, weights, codes = problem
    first, second = in_sequence(prior, weights, codes)[0], in_sequence(prior, weights[::-1], codes[::-1])[0]
    np.testing.assert_allclose(first.mean, second.mean, atol=1e-10)
    np.testing.assert_allclose(first.covariance, second.covariance, atol=1e-10)


def test_predicted_variances_give_the_determinant(problem, float64):
    (_, covariance), _, _ = problem
    belief, variances = in_sequence(*problem)
    expected = np.linalg.slogdet(belief.covariance)[1] - np.linalg.slogdet(covariance)[1]
    assert sum(np.log(NOISE / v) for v in variances) == pytest.approx(expected)


def test_addressing_is_regularised_least_squares(rng, float64):
    """As ordinary least squares with one more row for each weight."""
    mean, code = rng.normal(size=(SLOTS, CODE)), rng.normal(size=CODE)
    rows = np.concatenate([mean.T, np.sqrt(0.4) * np.eye(SLOTS)])
    expected = np.linalg.lstsq(rows, np.concatenate([code, np.zeros(SLOTS)]), rcond=None)[0]
    found = addressing(jnp.asarray(mean), jnp.asarray(code), jnp.asarray(0.4))
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_divergences_are_those_of_gaussians(rng, float64):
    """The general formula for two Gaussians, column by column of the memory."""

    def general(mean, covariance, other_mean, other_covariance):
        inverse, gap = np.linalg.inv(other_covariance), mean - other_mean
        logs = np.linalg.slogdet(other_covariance)[1] - np.linalg.slogdet(covariance)[1]
        return (np.trace(inverse @ covariance) + gap @ inverse @ gap - len(mean) + logs) / 2

    mean, prior_mean, root = rng.normal(size=(SLOTS, CODE)), rng.normal(size=(SLOTS, CODE)), rng.normal(size=(SLOTS, 9))
    covariance, prior = root @ root.T / 9, 1.7 * np.eye(SLOTS)
    expected = sum(general(mean[:, c], covariance, prior_mean[:, c], prior) for c in range(CODE))
    ratio = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(prior)[1]
    belief = Belief(jnp.asarray(mean), jnp.asarray(covariance))
    found = memory_divergence(belief, jnp.asarray(prior_mean), jnp.asarray(1.7), jnp.asarray(ratio))
    np.testing.assert_allclose(found, expected)
    expected = general(mean[:, 0], 0.2**2 * np.eye(SLOTS), np.zeros(SLOTS), np.eye(SLOTS))
    np.testing.assert_allclose(weights_divergence(jnp.asarray(mean[:, 0]), jnp.log(0.2)), expected)


def test_memory_is_the_floats_that_writing_changes(small):
    """All of the mean, and of the symmetric covariance what is not above the diagonal."""
    state, start = small.write(strings(4, 7)), small.initial_state
    covariance = np.asarray(state.covariance != start.covariance)
    np.testing.assert_allclose(state.covariance, state.covariance.T, atol=1e-6)
    assert small.memory_size == 21 + 6 == np.sum(np.asarray(state.mean != start.mean)) + np.sum(np.tril(covariance))


def test_written_codes_are_spanned_by_the_memory():
    """With little noise and room enough, random strings come back; from an unwritten memory they do not."""
    model = KanervaMachine((24,), domain=(-1.0, 1.0), slots=8, read_steps=3, key=jax.random.key(0))
    model = eqx.tree_at(lambda m: m.log_noise, model, jnp.log(0.05))
    stored = strings(3, 24)
    wrong = [
        np.sum(np.asarray(model.read(state, stored).patterns > 0) != np.asarray(stored > 0))
        for state in (model.write(stored), model.initial_state)
    ]
    assert wrong[0] == 0
    assert wrong[1] > 10


def test_reading_goes_through_the_memory_again_and_again(small):
    """Each iterate is what one step makes of the one before, and its energy is that of `energies`."""
    state, queries = small.write(strings(4, 7)), strings(2, 7, seed=1)
    out = small.read(state, queries)
    again = small.read(state, out.trajectory[0])
    assert out.trajectory.shape == (2, 2, 7)
    np.testing.assert_allclose(out.trajectory[1], again.trajectory[0], atol=1e-5)
    np.testing.assert_allclose(out.energies[2], small.energies(state, out.patterns), rtol=1e-5)
    code = small.codec.encode(queries[0])
    weights = addressing(state.mean, code, jnp.exp(2 * small.log_noise))
    np.testing.assert_allclose(out.trajectory[0, 0], small.codec.decode(weights @ state.mean), atol=1e-5)


def test_known_dimensions_are_clamped(small):
    queries = strings(3, 7, seed=1)
    known = jax.random.bernoulli(jax.random.key(3), 0.5, queries.shape)
    out = small.read(small.write(strings(3, 7)), queries, known=known)
    assert np.all(np.asarray(out.trajectory == queries)[:, np.asarray(known)])
    assert np.any(np.asarray(out.patterns != queries))


def test_the_loss_is_two_likelihoods_and_two_divergences(small, float64):
    """With weights so certain that their sample is their mean, each term from what writing and reading give."""
    model = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), small)
    model = eqx.tree_at(lambda m: m.log_spread, model, jnp.asarray(-20.0))
    patterns = strings(4, 7).astype(jnp.float64)
    state = model.write(patterns)
    read = model.read(state, patterns).trajectory[0]
    expected = 0.0
    for pattern, recalled in zip(np.asarray(patterns), np.asarray(read), strict=True):
        for chance in ((1 + recalled) / 2, 1 / (1 + np.exp(-pattern))):  # from the memory, and from the code itself
            expected -= np.log(np.where(pattern > 0, chance, 1 - chance)).sum()
        weights = addressing(state.mean, jnp.asarray(pattern), jnp.exp(2 * model.log_noise))
        expected += np.sum(np.asarray(weights) ** 2 + np.exp(-40) - 1 + 40) / 2
    gap = np.asarray(state.mean - model.prior_mean)
    expected += (7 * (np.trace(state.covariance) - 3 - np.linalg.slogdet(state.covariance)[1]) + np.sum(gap**2)) / 2
    loss, recalled = model.loss(patterns, patterns)
    assert loss == pytest.approx(expected / 4, rel=1e-6)
    np.testing.assert_allclose(recalled, read)


def test_training_lowers_the_bound_with_every_parameter_taking_part(string_episodes):
    model = KanervaMachine((6,), domain=(-1.0, 1.0), slots=3, key=jax.random.key(0))
    settings = Settings(updates=1, stages=(Stage(4, 2, 1),))
    indices, rates = np.arange(100), np.full(100, 3e-2, np.float32)
    learner = Learner.of(model, settings)
    learner, report = run_updates(learner, string_episodes, 2, "hamming", settings, jax.random.key(1), indices, rates)
    assert report.loss[-20:].mean() < 0.9 * report.loss[:20].mean()
    before, after = (jax.tree.leaves(eqx.filter(m, eqx.is_array)) for m in (model, learner.model))
    assert all(np.any(np.asarray(a != b)) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "wrong", [{"pattern_shape": (8, 8)}, {"slots": 0}, {"read_steps": 0}, {"divergence_weight": -1.0}]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        KanervaMachine(**({"pattern_shape": (8,), "key": jax.random.key(0)} | wrong))
