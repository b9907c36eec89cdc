"""Practising what is to be recalled leaves fewer errors in the same memory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import strings

import ebmm
from ebmm.baselines import Hopfield
from ebmm.data.distortions import ResampledBits
from ebmm.rehearsal import MOMENTA, RATE, Rehearsed, with_rehearsal


class Bowl(eqx.Module):
    """½ ‖x − θ‖²: a read step of length 1 leads to θ, whatever the query."""

    memory: jax.Array

    def __call__(self, x):
        return 0.5 * jnp.sum((x - self.memory) ** 2)


def bowl(*, write_rate=0.2, start=0.1):
    """One write step that goes a fifth of the way, and one read step that goes nearly all of it."""
    initial = ebmm.InitialRates(energy=write_rate, gradient=1e-8, prior=1e-8, relative=False)
    model = ebmm.new_model(
        Bowl(jnp.full(6, start)),
        strings(1, 6),
        where=lambda e: (e.memory,),
        domain=(-1.0, 1.0),
        write_steps=1,
        read_steps=1,
        initial=initial,
    )
    rates = ebmm.ReadRates.starting_at(rate=1.0, momentum=0.5, decay=0.5, steps=1)
    return eqx.tree_at(lambda m: m.read_rates, model, rates)


def by_hand(pattern, start, steps):
    """Adam in NumPy on ‖x − θ‖², which is what a read of the bowl leaves wrong."""
    theta, mean, square = start.astype(np.float64), np.zeros(6), np.zeros(6)
    first = RATE * np.sqrt(np.mean(theta**2))
    for index in range(steps):
        gradient = 2 * (theta - pattern)
        mean = MOMENTA[0] * mean + (1 - MOMENTA[0]) * gradient
        square = MOMENTA[1] * square + (1 - MOMENTA[1]) * gradient**2
        unbiased = mean / (1 - MOMENTA[0] ** (index + 1)), square / (1 - MOMENTA[1] ** (index + 1))
        theta -= first * (1 - index / steps) * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    return theta


@pytest.mark.parametrize("steps", [1, 7])
def test_it_is_adam_on_what_reading_leaves_wrong(steps):
    model, pattern = bowl(), strings(1, 6, seed=1)
    (plain,) = model.write(pattern)
    (state,) = Rehearsed(model, ebmm.Rehearsal("bits:0.5", steps)).write(pattern)
    np.testing.assert_allclose(state, by_hand(np.asarray(pattern[0]), np.asarray(plain), steps), rtol=1e-4)


def test_a_memory_recalls_better_after_rehearsal(rnn):
    """Under damage that it has not practised with; the network is small, was never trained, and still gains."""
    patterns, damage = strings(4, 6), ResampledBits(0.5)
    keys = jax.random.split(jax.random.key(9), 4 * 16)
    queries, known = jax.vmap(lambda x, key: damage(x, key=key, domain=(-1.0, 1.0)))(jnp.tile(patterns, (16, 1)), keys)

    def error(memory):
        return np.mean((memory.read(queries, known=known).trajectory - np.tile(patterns, (16, 1))) ** 2)

    memory = ebmm.Memory(rnn, "small")
    plain = memory.write(patterns)
    practised = memory.write(patterns, rehearsal=ebmm.Rehearsal(damage, 150, reveal=True))
    assert practised.memory_size == plain.memory_size
    assert error(practised) < 0.9 * error(plain)


def test_steps_that_go_too_far_leave_what_was_written(monkeypatch):
    monkeypatch.setattr("ebmm.rehearsal.RATE", 1e4)
    model, pattern = bowl(), 0.5 * strings(1, 6, seed=1)  # so that the edge of the domain is far from it
    np.testing.assert_array_equal(
        Rehearsed(model, ebmm.Rehearsal("bits:0.5", 3)).write(pattern)[0], model.write(pattern)[0]
    )


def test_it_is_the_same_memory_in_all_but_writing(rnn):
    rehearsed, queries = with_rehearsal(rnn, ebmm.Rehearsal("bits:0.5")), strings(4, 6, seed=2)
    for name in ("pattern_shape", "domain", "memory_size"):
        assert getattr(rehearsed, name) == getattr(rnn, name)
    state = rnn.write(strings(4, 6))
    np.testing.assert_array_equal(rehearsed.read(state, queries).patterns, rnn.read(state, queries).patterns)
    np.testing.assert_array_equal(rehearsed.energies(state, queries), rnn.energies(state, queries))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="got 0 steps; expected at least 1"):
        ebmm.Rehearsal("bits:0.5", 0)
    with pytest.raises(ValueError, match="a Hopfield is not read down an energy"):
        with_rehearsal(Hopfield((8,)), ebmm.Rehearsal("bits:0.5"))


def test_other_systems_are_left_alone_without_it():
    model = Hopfield((8,))
    assert with_rehearsal(model, None) is model
