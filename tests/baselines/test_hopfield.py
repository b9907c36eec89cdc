"""The Hopfield network and its three rules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmm.baselines.hopfield import RULES, Hopfield
from ebmm.data.binary import strings
from ebmm.data.distortions import ResampledBits
from ebmm.data.episodes import Episodes
from ebmm.evaluation.errors import measure_errors


@pytest.fixture
def patterns():
    return strings(24).draw(4, key=jax.random.key(0))


def test_the_rules_agree_with_plain_sums(patterns):
    """Hebb and Storkey as their papers write them, index by index."""
    array = np.asarray(patterns, np.float64)
    bits = array.shape[1]
    by_hebb, by_storkey = np.zeros((2, bits, bits))
    for pattern in array:
        fields = np.zeros((bits, bits))
        for i in range(bits):
            for j in range(bits):
                fields[i, j] = sum(by_storkey[i, k] * pattern[k] for k in range(bits) if k not in (i, j))
        change = np.zeros((bits, bits))
        for i in range(bits):
            for j in range(bits):
                by_hebb[i, j] += pattern[i] * pattern[j] / bits
                change[i, j] = pattern[i] * pattern[j] - pattern[i] * fields[j, i] - fields[i, j] * pattern[j]
        by_storkey = by_storkey + change / bits
    np.testing.assert_allclose(RULES["hebb"](patterns), by_hebb, atol=1e-5)
    np.testing.assert_allclose(RULES["storkey"](patterns), by_storkey, atol=1e-5)


def test_stored_patterns_are_fixed_points_of_the_pseudo_inverse_rule(patterns):
    weights = RULES["pseudo-inverse"](patterns)
    np.testing.assert_allclose(weights @ patterns.T, patterns.T, atol=1e-4)
    for order in ("asynchronous", "synchronous"):
        model = Hopfield(pattern_shape=(24,), rule="pseudo-inverse", order=order)
        out = model.read(model.write(patterns), patterns)
        np.testing.assert_array_equal(out.patterns, patterns)


@pytest.mark.parametrize("rule", RULES)
def test_the_matrix_is_symmetric_and_connects_no_bit_to_itself(rule, patterns):
    weights = Hopfield(pattern_shape=(24,), rule=rule).write(patterns)
    np.testing.assert_allclose(weights, weights.T, atol=1e-5)
    assert not np.diag(weights).any()


def test_memory_counts_each_weight_once_as_the_paper_does():
    assert Hopfield(pattern_shape=(128,)).memory_size == 8256
    assert Hopfield(pattern_shape=(32,)).memory_size == 528


def test_an_asynchronous_read_never_climbs(patterns):
    model = Hopfield(pattern_shape=(24,), rule="storkey", sweeps=4)
    state = model.write(patterns)
    queries = strings(24).draw(8, key=jax.random.key(1))
    energies = np.asarray(model.read(state, queries, key=jax.random.key(2)).energies)
    assert energies.shape == (5, 8)
    assert np.all(np.diff(energies, axis=0) <= 1e-5)
    np.testing.assert_allclose(energies[0], model.energies(state, queries), rtol=1e-5)


@pytest.mark.parametrize("order", ["asynchronous", "synchronous"])
def test_known_bits_are_clamped(order, patterns):
    model = Hopfield(pattern_shape=(24,), order=order)
    known = jax.random.bernoulli(jax.random.key(3), 0.5, patterns.shape)
    queries = strings(24).draw(4, key=jax.random.key(1))
    out = model.read(model.write(patterns), queries, known=known)
    assert np.all(np.asarray(out.patterns == queries)[np.asarray(known)])
    assert np.any(np.asarray(out.patterns != queries))


def test_a_read_is_the_same_for_the_same_key(patterns):
    model = Hopfield(pattern_shape=(24,))
    state, queries = model.write(patterns), strings(24).draw(8, key=jax.random.key(1))
    first, again = (model.read(state, queries, key=jax.random.key(4)).trajectory for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_the_errors_of_hebb_are_the_published_ones():
    """16 strings of 128 bits, half of them drawn anew and half clamped: 0.4 wrong bits."""
    episodes = Episodes(strings(128), ResampledBits(0.5), 16, reveal=True)
    model = Hopfield(pattern_shape=(128,), order="synchronous")
    errors = measure_errors(model, episodes, key=jax.random.key(0), batches=40, at_once=10)
    assert errors.read.mean() == pytest.approx(0.4, abs=0.25)


@pytest.mark.parametrize("wrong", [{"pattern_shape": (2, 2)}, {"sweeps": 0}, {"rule": "oja"}, {"order": "random"}])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        Hopfield(**({"pattern_shape": (8,)} | wrong))


def test_jit_and_vmap(patterns):
    model = Hopfield(pattern_shape=(24,), sweeps=2)
    stacked = jnp.stack([patterns, -patterns])
    states = jax.jit(jax.vmap(model.write))(stacked)
    np.testing.assert_allclose(states[0], model.write(patterns), rtol=1e-5)
