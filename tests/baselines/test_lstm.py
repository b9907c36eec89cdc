"""The LSTM: its step, its gradient, and what is kept between writing and reading."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, strings

from ebmm.baselines.lstm import LSTM, activate, unroll


def small(key, **settings):
    return LSTM((6,), domain=(-1.0, 1.0), **({"hidden": 5} | settings), key=key)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain_step(model, code, is_query, state):
    output, cells = state
    inputs = np.asarray(model.inputs.weight) @ np.append(code, is_query) + np.asarray(model.inputs.bias)
    i, f, g, o = np.split(inputs + np.asarray(model.recurrent) @ output, 4)
    cells = sigmoid(f) * cells + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cells), cells


def test_writing_and_reading_equal_a_plain_loop_and_each_query_starts_from_the_same_state(key):
    model, patterns, queries = small(key, looks=2), strings(4, 6), strings(3, 6, seed=1)
    known = jax.random.bernoulli(key, 0.5, queries.shape)
    written = (np.zeros(5), np.zeros(5))
    for pattern in np.asarray(patterns):
        written = plain_step(model, pattern, 0.0, written)
    found = model.write(patterns)
    np.testing.assert_allclose(found, written, atol=1e-5)
    expected = np.zeros((2, 3, 6))
    for n in range(3):
        state = written
        for look in range(2):
            state = plain_step(model, np.where(known[n], queries[n], 0.0), 1.0, state)
            answer = np.tanh((np.asarray(model.answer.weight) @ state[0] + np.asarray(model.answer.bias)) / 2)
            expected[look, n] = np.where(known[n], queries[n], answer)
    np.testing.assert_allclose(model.read(found, queries, known=known).trajectory, expected, atol=1e-5)


def test_the_gradient_of_writing_is_that_of_a_plain_loop(float64, rng):
    arguments = (rng.normal(size=(12, 3)), rng.normal(size=(4, 12)), (rng.normal(size=3), rng.normal(size=3)))
    arguments = jax.tree.map(jnp.asarray, arguments)
    weights = jnp.asarray(rng.normal(size=(2, 3)))

    def plain(recurrent, drives, state):
        for drive in drives:
            state = activate(drive + recurrent @ state[0], state[1])
        return jnp.sum(weights * jnp.stack(state))

    def ours(*arguments):
        return jnp.sum(weights * jnp.stack(unroll(*arguments)))

    value, gradients = jax.jit(jax.value_and_grad(ours, (0, 1, 2)))(*arguments)
    expected, by_hand = jax.jit(jax.value_and_grad(plain, (0, 1, 2)))(*arguments)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    for one, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(by_hand), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_the_first_weights_keep_every_pattern(key):
    """The first of 64 patterns still shows in the cells after the last."""
    model, patterns = small(key), strings(64, 6)
    others = patterns.at[0].multiply(-1)
    difference = np.abs(model.write(patterns)[1] - model.write(others)[1])
    at_first = np.abs(model.write(patterns[:1])[1] - model.write(others[:1])[1])
    assert difference.max() > 0.3 * at_first.max() > 0


def test_a_first_query_changes_the_cells_less_than_a_pattern(key):
    model, pattern = small(key, hidden=50), strings(6)
    zero = np.zeros(50), np.zeros(50)
    as_pattern, as_query = (np.abs(plain_step(model, pattern, flag, zero)[1]).sum() for flag in (0.0, 1.0))
    assert as_query < 0.3 * as_pattern


def test_memory_is_output_and_cells_and_all_of_it_is_written(key):
    sizes = jax.eval_shape(lambda: LSTM((128,), domain=(-1.0, 1.0), key=key))
    assert sizes.memory_size == 8256
    model = small(key)
    changed = np.stack(model.write(strings(3, 6))) != np.stack(model.initial_state)
    assert changed.sum() == changed.size == model.memory_size == 10


def test_images_are_shown_as_codes(key):
    @jax.jit
    def recalled(pictures):
        model = LSTM((8, 8, 1), hidden=5, code=6, channels=2, looks=2, key=key)
        return model.read(model.write(pictures), pictures).trajectory

    trajectory = recalled(images(3, 8, 8, 1))
    assert trajectory.shape == (2, 3, 8, 8, 1)
    assert 0 <= trajectory.min() <= trajectory.max() <= 1


@pytest.mark.parametrize("wrong", [{"hidden": 0}, {"looks": 0}, {"pattern_shape": (2, 2)}, {"domain": (1.0, 0.0)}])
def test_what_makes_no_sense_is_refused(wrong, key):
    with pytest.raises(ValueError, match="expected"):
        LSTM(**({"pattern_shape": (6,)} | wrong), key=key)
