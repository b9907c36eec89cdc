"""The MANN: least recently used access, content addressing, and what is kept between writing and reading."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, strings

from ebmm.baselines.mann import MANN, by_content, least_used, store


def small(key, **settings):
    settings = {"slots": 4, "width": 5, "hidden": 3} | settings
    return MANN((6,), domain=(-1.0, 1.0), **settings, key=key)


def with_order(model, index, value):
    """The controller's order number `index` fixed at a value, whatever it sees."""
    weight, bias = model.orders.weight.at[index].set(0.0), model.orders.bias.at[index].set(value)
    return eqx.tree_at(lambda m: (m.orders.weight, m.orders.bias), model, (weight, bias))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def linear(layer, x):
    return np.asarray(layer.weight) @ x + np.asarray(layer.bias)


def plain_control(model, state, code, vector):
    output, cells = state
    cell = model.controller
    gates = np.asarray(cell.weight_ih) @ np.concatenate([code, vector]) + np.asarray(cell.weight_hh) @ output
    i, f, g, o = np.split(gates + np.asarray(cell.bias), 4)
    cells = sigmoid(f) * cells + sigmoid(i) * np.tanh(g)
    output = sigmoid(o) * np.tanh(cells)
    orders = linear(model.orders, np.concatenate([output, code]))
    return (output, cells), orders[:-2], np.log1p(np.exp(orders[-2])), sigmoid(orders[-1])


def plain_weights(key, slots, strength):
    cosines = np.array([slot @ key / np.sqrt((slot @ slot) * (key @ key) + 1e-6) for slot in slots])
    powers = np.exp(strength * cosines)
    return powers / powers.sum()


def test_content_addressing_is_a_softmax_of_cosines(rng):
    slots, key = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    slots[2] = 0
    weights = by_content(jnp.asarray(key), jnp.asarray(slots), jnp.array(3.0))
    np.testing.assert_allclose(weights, plain_weights(key, slots, 3.0), rtol=1e-4)


def test_an_empty_slot_has_a_gradient():
    gradient = jax.grad(lambda slots: by_content(jnp.ones(3), slots, jnp.array(3.0))[0])(jnp.zeros((2, 3)))
    assert np.all(np.isfinite(gradient))


def test_the_least_used_slot_is_the_one_with_the_least_usage():
    np.testing.assert_array_equal(least_used(jnp.array([0.5, 0.1, 0.3, 0.1])), [0, 1, 0, 0])


@pytest.mark.parametrize(("gate", "place"), [(0.0, 2), (1.0, 0)])
def test_the_gate_chooses_between_the_slot_just_read_and_the_least_used(gate, place):
    slots, usage = jnp.arange(12.0).reshape(4, 3) + 1, jnp.array([0.9, 0.8, 0.1, 0.7])
    read, key = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([10.0, 20.0, 30.0])
    after, used = store(slots, usage, read, key, jnp.array(gate), 0.5)
    expected = np.array(slots)
    expected[place] = key if gate == 0 else expected[place] + key  # the least used slot is emptied first
    np.testing.assert_allclose(after, expected, rtol=1e-6)
    np.testing.assert_allclose(used, 0.5 * usage + read + np.eye(4)[place], rtol=1e-6)


def test_with_a_closed_gate_every_pattern_gets_a_slot_of_its_own(key):
    model = with_order(small(key, decay=1.0), -1, -200.0)
    one_by_one = [model.write(strings(4, 6)[:count]) for count in range(5)]
    for count in range(4):
        changed = np.any(np.asarray(one_by_one[count + 1] != one_by_one[count]), axis=1)
        np.testing.assert_array_equal(changed, np.arange(4) == count)


def test_writing_equals_a_plain_loop(key):
    model, patterns = with_order(small(key), -1, 0.3), np.asarray(strings(7, 6))
    state, slots = (np.zeros(3), np.zeros(3)), np.zeros((4, 5))
    usage, vector = np.zeros(4), np.zeros(5)
    for pattern in patterns:
        state, order, strength, gate = plain_control(model, state, pattern, vector)
        read = plain_weights(order, slots, strength)
        vector = read @ slots
        least = np.argmin(usage)
        written = gate * read
        written[least] += 1 - gate
        slots[least] *= gate
        slots = slots + np.outer(written, order)
        usage = 0.99 * usage + read + written
    np.testing.assert_allclose(model.write(jnp.asarray(patterns)), slots, rtol=1e-3, atol=1e-4)


def test_reading_equals_a_plain_loop_and_starts_afresh_for_each_query(key):
    model, slots = small(key, looks=3), np.asarray(jax.random.normal(key, (4, 5)))
    queries = np.asarray(strings(2, 6, seed=1))
    known = np.asarray(jax.random.bernoulli(key, 0.5, (2, 6)))
    expected = np.zeros((3, 2, 6))
    for n in range(2):
        state, vector, code = (np.zeros(3), np.zeros(3)), np.zeros(5), np.where(known[n], queries[n], 0)
        for look in range(3):
            state, order, strength, _ = plain_control(model, state, code, vector)
            vector = plain_weights(order, slots, strength) @ slots
            answer = np.tanh(linear(model.answer, np.concatenate([state[0], code, vector])) / 2)
            expected[look, n] = np.where(known[n], queries[n], answer)
    out = model.read(jnp.asarray(slots), jnp.asarray(queries), known=jnp.asarray(known))
    np.testing.assert_allclose(out.trajectory, expected, atol=1e-4)


def test_memory_is_the_slots_and_all_of_it_is_written(key):
    assert MANN((128,), domain=(-1.0, 1.0), hidden=4, key=key).memory_size == 8256
    model = small(key)
    assert np.sum(np.asarray(model.write(strings(6, 6)) != model.initial_state)) == model.memory_size == 20


def test_images_are_written_and_read_as_codes(key):
    @jax.jit
    def recalled(pictures):
        model = MANN((8, 8, 1), slots=4, width=5, hidden=3, code=6, channels=2, key=key)
        return model.read(model.write(pictures), pictures).trajectory

    trajectory = recalled(images(3, 8, 8, 1))
    assert trajectory.shape == (2, 3, 8, 8, 1)
    assert 0 <= trajectory.min() <= trajectory.max() <= 1


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"width": 0}, {"hidden": 0}, {"looks": 0}, {"decay": 1.5}])
def test_what_makes_no_sense_is_refused(wrong, key):
    with pytest.raises(ValueError, match="expected"):
        small(key, **wrong)
