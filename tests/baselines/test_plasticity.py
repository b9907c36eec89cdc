"""Differentiable plasticity: the trace, what it does to a read, and fast weights as a special case."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, strings

from ebmm.baselines.hopfield import hebb as hopfield_weights
from ebmm.baselines.plasticity import Plasticity, oja


def small(key, **settings):
    return Plasticity((6,), domain=(-1.0, 1.0), **settings, key=key)


def at_rate(model, rate):
    return eqx.tree_at(lambda m: m.rate_logit, model, jnp.log(rate / (1 - rate)))


@pytest.mark.parametrize("presentations", [1, 3])
def test_the_trace_of_hebb_is_a_decaying_sum_of_products(presentations, key):
    patterns, rate = np.asarray(strings(4, 6)), 0.2
    trace = np.zeros((6, 6))
    for pattern in [*patterns] * presentations:
        for i in range(6):
            for j in range(6):
                trace[i, j] = (1 - rate) * trace[i, j] + rate * pattern[i] * pattern[j]
    model = at_rate(small(key, presentations=presentations), rate)
    found = model.trace(model.write(jnp.asarray(patterns)))
    np.testing.assert_allclose(found, trace, atol=1e-5)
    np.testing.assert_array_equal(found, found.T)


def test_oja_forgets_only_where_a_unit_is_active(rng):
    trace, activity = rng.normal(size=(3, 3)).astype(np.float32), np.array([0.5, 0.0, -1.0], np.float32)
    found = np.asarray(oja(jnp.asarray(trace), jnp.asarray(activity), jnp.array(0.3)))
    for i in range(3):
        for j in range(3):
            change = 0.3 * activity[i] * (activity[j] - activity[i] * trace[i, j])
            assert found[i, j] == pytest.approx(trace[i, j] + change, abs=1e-6)


def test_on_strings_the_rules_agree(key):
    patterns = strings(4, 6)
    one, other = (small(key, rule=rule) for rule in ("hebb", "oja"))
    np.testing.assert_allclose(one.trace(one.write(patterns)), other.trace(other.write(patterns)), atol=1e-6)


@pytest.mark.parametrize("rule", ["hebb", "oja"])
def test_reading_equals_a_plain_loop(rule, key):
    model = small(key, rule=rule, steps=3)
    weights, plastic, bias = (jax.random.normal(jax.random.key(i), s) for i, s in enumerate([(6, 6), (6, 6), (6,)]))
    model = eqx.tree_at(lambda m: (m.weights, m.plastic, m.bias), model, (weights, 20 * plastic, bias))
    state = model.write(strings(3, 6))
    queries = np.asarray(strings(2, 6, seed=1))
    known = np.asarray(jax.random.bernoulli(key, 0.5, (2, 6)))
    connections = np.asarray(weights) + 20 * np.asarray(plastic) * np.asarray(model.trace(state))
    activity = start = np.where(known, queries, 0.0)
    expected = []
    for _ in range(3):
        total = activity @ connections.T + np.asarray(bias) + float(model.drive) * start
        activity = np.where(known, queries, np.tanh(total))
        expected.append(activity)
    out = model.read(state, jnp.asarray(queries), known=jnp.asarray(known))
    np.testing.assert_allclose(out.trajectory, expected, atol=1e-4)


@pytest.mark.parametrize("plasticity", ["each", "shared"])
def test_the_memory_acts_through_plasticity_alone(plasticity, key):
    model, queries = small(key, plasticity=plasticity), strings(2, 6, seed=1)
    rigid = eqx.tree_at(lambda m: m.plastic, model, jnp.zeros_like(model.plastic))
    empty, written = model.initial_state, model.write(strings(3, 6))
    assert not np.allclose(model.read(written, queries).patterns, model.read(empty, queries).patterns, atol=1e-2)
    np.testing.assert_array_equal(rigid.read(written, queries).patterns, rigid.read(empty, queries).patterns)


def test_fast_weights_have_one_plasticity_for_all_connections(key):
    each, shared = (small(key, plasticity=plasticity) for plasticity in ("each", "shared"))
    assert each.plastic.shape == (6, 6)
    assert shared.plastic.shape == ()
    patterns = strings(3, 6)
    one, other = (model.read(model.write(patterns), patterns).patterns for model in (each, shared))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_first_connections_are_twice_those_of_a_hopfield_network(key):
    """Up to what the first of a few patterns has lost when the last is written."""
    model, patterns = small(key), strings(3, 6)
    found = model.plastic * model.trace(model.write(patterns))
    np.testing.assert_allclose(found, 2 * hopfield_weights(patterns), atol=0.02)


def test_a_symmetric_trace_counts_each_pair_once(key):
    assert Plasticity((128,), domain=(-1.0, 1.0), key=key).memory_size == 8256
    for rule, floats in (("hebb", 21), ("oja", 36)):
        model = small(key, rule=rule)
        changed = np.asarray(model.write(strings(3, 6)) != model.initial_state)
        assert changed.sum() == changed.size == model.memory_size == floats


def test_images_are_written_as_codes(key):
    pictures = images(3, 8, 8, 1)
    known = jnp.zeros(pictures.shape, bool).at[:, :2].set(True)

    @jax.jit
    def written_and_read(pictures):
        model = Plasticity((8, 8, 1), code=5, channels=2, steps=2, key=key)
        state = model.write(pictures[:1])
        code = model.codec.encode(pictures[0])
        return state, model.trace(state), code, model.read(state, pictures, known=known).trajectory

    state, trace, code, trajectory = written_and_read(pictures)
    assert state.shape == (15,)
    np.testing.assert_allclose(trace, 0.005 * np.outer(np.tanh(code), np.tanh(code)), rtol=1e-2, atol=1e-5)
    assert trajectory.shape == (2, 3, 8, 8, 1)
    np.testing.assert_array_equal(trajectory[-1, :, :2], pictures[:, :2])


@pytest.mark.parametrize("wrong", [{"rule": "storkey"}, {"plasticity": "none"}, {"steps": 0}, {"presentations": 0}])
def test_what_makes_no_sense_is_refused(wrong, key):
    with pytest.raises(ValueError, match="expected"):
        small(key, **wrong)
