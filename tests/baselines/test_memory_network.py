"""The Memory Network: what a slot holds, what attention reads, and what is lost when the slots run out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, strings

from ebmm.baselines.memory_network import MemoryNetwork


def small(key, **settings):
    return MemoryNetwork((6,), domain=(-1.0, 1.0), **({"slots": 4, "width": 5} | settings), key=key)


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def linear(layer, x):
    return np.asarray(layer.weight) @ np.asarray(x) + np.asarray(layer.bias)


def test_a_slot_holds_the_projection_of_one_pattern(key):
    model, patterns = small(key), strings(3, 6)
    state = model.write(patterns)
    np.testing.assert_allclose(state[:3], [linear(model.store, x) for x in patterns], rtol=1e-5)
    assert not np.any(state[3])


def test_with_more_patterns_than_slots_the_first_are_overwritten(key):
    model, patterns = small(key), strings(6, 6)
    by_hand = np.zeros((4, 5), np.float32)
    for index, pattern in enumerate(patterns):
        by_hand[index % 4] = linear(model.store, pattern)
    np.testing.assert_allclose(model.write(patterns), by_hand, rtol=1e-5)


@pytest.mark.parametrize("hops", [1, 2])
def test_a_read_is_a_softmax_over_the_slots(hops, key):
    model, state = small(key, hops=hops), jax.random.normal(key, (4, 5))
    query = strings(6, seed=1)
    known = jnp.array([True, False, True, True, False, False])
    seen, iterates = np.where(known, query, 0.0), []
    for _ in range(hops):
        weights = softmax(np.exp(float(model.log_strength)) * np.asarray(state) @ linear(model.ask, seen) / 5)
        seen = np.where(known, query, np.tanh(linear(model.answer, weights @ np.asarray(state)) / 2))
        iterates.append(seen)
    out = model.read(state, query[None], known=known[None])
    np.testing.assert_allclose(out.trajectory[:, 0], iterates, atol=1e-5)
    np.testing.assert_array_equal(out.patterns, out.trajectory[-1])


def test_from_the_start_a_damaged_copy_is_answered_with_its_slot(key):
    """The projections of queries and patterns begin equal, so that the content of a slot finds it."""
    model, patterns = MemoryNetwork((64,), domain=(-1.0, 1.0), slots=8, width=65, key=key), strings(8, 64)
    known = jax.random.bernoulli(jax.random.key(1), 0.5, patterns.shape)
    state = model.write(patterns)
    alone = jnp.stack([linear(model.answer, slot) for slot in np.asarray(state)])
    recalled = model.read(state, patterns, known=known).patterns
    np.testing.assert_allclose(recalled, jnp.where(known, patterns, jnp.tanh(alone / 2)), atol=0.05)


def test_memory_is_slots_times_width_and_all_of_it_is_written(key):
    assert MemoryNetwork((128,), domain=(-1.0, 1.0), key=key).memory_size == 8256
    model = small(key)
    assert np.sum(np.asarray(model.write(strings(4, 6)) != model.initial_state)) == model.memory_size == 20


def test_images_are_stored_as_codes(key):
    @jax.jit
    def stored_and_read(pictures):
        model = MemoryNetwork((8, 8, 1), slots=4, width=5, code=6, channels=2, key=key)
        state = model.write(pictures)
        return state, model.store(model.codec.encode(pictures[1])), model.read(state, pictures).trajectory

    state, vector, trajectory = stored_and_read(images(3, 8, 8, 1))
    np.testing.assert_allclose(state[1], vector, rtol=1e-3, atol=1e-4)
    assert trajectory.shape == (1, 3, 8, 8, 1)


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"width": 0}, {"hops": 0}])
def test_what_makes_no_sense_is_refused(wrong, key):
    with pytest.raises(ValueError, match="expected"):
        small(key, **wrong)
