"""A model is read in more or fewer steps than it has learned."""

import equinox as eqx
import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ebmm
from ebmm.baselines import Hopfield
from ebmm.longer import in_steps, to_learn_in


def test_more_steps_repeat_the_last_and_fewer_are_the_first(rnn):
    rates = rnn.read_rates
    learned = len(rates.rates())
    for steps in (1, learned, learned + 3):
        model = in_steps(rnn, steps)
        for found, own in ((model.read_rates.rates(), rates.rates()), (model.read_rates.momenta(), rates.momenta())):
            expected = np.concatenate([own[:steps], np.repeat(own[-1], max(steps - learned, 0))])
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_longer_read_begins_as_a_shorter_one_and_goes_on_downhill(rnn):
    strings = jax.random.rademacher(jax.random.key(0), (4, *rnn.pattern_shape), dtype=float)
    memory = ebmm.Memory(rnn).write(strings)
    queries = 0.5 * strings
    learned, longer = memory.read(queries), memory.read(queries, steps=5)
    steps = len(learned.trajectory)
    assert len(longer.trajectory) == 5 > steps
    np.testing.assert_allclose(longer.trajectory[:steps], learned.trajectory, atol=1e-6)
    assert np.mean(longer.energies[-1]) < np.mean(learned.energies[-1])
    short = memory.read(queries[0], steps=1)
    np.testing.assert_allclose(short.patterns, learned.trajectory[0, 0], atol=1e-6)


def test_as_learned_unless_told_otherwise(rnn):
    assert in_steps(rnn, None) is rnn
    model = Hopfield((8,))
    assert in_steps(model, None) is model


def test_steps_that_cannot_be_taken_are_refused(rnn):
    with pytest.raises(ValueError, match="got 0; expected at least 1"):
        in_steps(rnn, 0)
    with pytest.raises(ValueError, match="Hopfield is not read down an energy"):
        in_steps(Hopfield((8,)), 3)


def test_more_steps_to_learn_are_nearly_as_long_as_the_last_and_can_be_learned(rnn):
    learned = len(rnn.read_rates.rates())
    writes = len(rnn.write_rates.raw)
    model = to_learn_in(rnn, write_steps=writes, read_steps=learned + 2)
    for name in ("rates", "momenta"):
        found, own = (getattr(each.read_rates, name) for each in (model, rnn))
        np.testing.assert_allclose(found()[:learned], own(), rtol=1e-6)
        assert 0.9 * own()[-1] < found()[-1] < found()[-2] < own()[-1]
        slope = jax.grad(lambda sequence: sequence()[-1])(found).logits
        assert np.all(np.abs(slope) > 0)
    for fewer in (learned - 1, learned):
        assert eqx.tree_equal(to_learn_in(rnn, write_steps=writes, read_steps=fewer), rnn)


def test_more_write_steps_to_learn_lead_nearly_where_the_learned_ones_led(rnn):
    strings = jax.random.rademacher(jax.random.key(0), (4, *rnn.pattern_shape), dtype=float)
    reads, writes = len(rnn.read_rates.rates()), len(rnn.write_rates.raw)
    model = to_learn_in(rnn, write_steps=4 * writes, read_steps=reads)
    parts = model.write_rates().reshape(writes, 4, *rnn.write_rates().shape[1:])
    np.testing.assert_allclose(parts.sum(1), rnn.write_rates(), rtol=1e-5)
    states = (rnn.initial_state, rnn.write(strings), model.write(strings))
    start, learned, divided = (ravel_pytree(state)[0] for state in states)
    assert np.linalg.norm(divided - learned) < 0.3 * np.linalg.norm(learned - start)
    assert eqx.tree_equal(to_learn_in(rnn, write_steps=2 * writes + 1, read_steps=reads), rnn)  # not evenly
    other = Hopfield((8,))
    assert to_learn_in(other, write_steps=3, read_steps=3) is other
