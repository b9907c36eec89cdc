"""Fewer patterns than a model was trained for are written with shorter steps; to learn with more, longer ones."""

import jax
import numpy as np
import pytest

import ebmm
from ebmm.baselines import Hopfield
from ebmm.fewer import for_fewer, to_learn_with


def test_each_pattern_is_written_as_hard_as_in_training_and_the_prior_stays(rnn):
    shorter = for_fewer(rnn, 2, 8)
    factors = np.array([0.25, 0.25, 1.0])
    np.testing.assert_allclose(shorter.write_rates(), factors * rnn.write_rates(), rtol=1e-5)
    np.testing.assert_array_equal(shorter.read_rates.rates(), rnn.read_rates.rates())


def test_as_many_patterns_or_more_are_written_as_learned(rnn):
    for patterns, trained_for in ((8, 8), (9, 8), (4, None)):
        assert for_fewer(rnn, patterns, trained_for) is rnn


def test_to_learn_with_more_patterns_the_steps_grow_by_the_square_root(rnn):
    longer = to_learn_with(rnn, 32, 8)
    np.testing.assert_allclose(longer.write_rates(), np.array([2.0, 2.0, 1.0]) * rnn.write_rates(), rtol=1e-5)
    fewer, shorter = to_learn_with(rnn, 2, 8), for_fewer(rnn, 2, 8)
    np.testing.assert_array_equal(fewer.write_rates(), shorter.write_rates())
    for patterns, trained_for in ((8, 8), (9, None)):
        assert to_learn_with(rnn, patterns, trained_for) is rnn


def test_other_systems_have_no_steps_to_change():
    model = Hopfield((8,))
    assert for_fewer(model, 2, 8) is model
    assert to_learn_with(model, 32, 8) is model


def test_a_memory_writes_fewer_patterns_with_shorter_steps(rnn):
    strings = jax.random.rademacher(jax.random.key(0), (4, *rnn.pattern_shape), dtype=float)
    memory = ebmm.Memory(rnn, "small", trained={"patterns": 2 * len(strings)})
    found = memory.write(strings, careful=False).state
    expected = ebmm.Memory(for_fewer(rnn, 1, 2)).write(strings).state
    learned = ebmm.Memory(rnn).write(strings).state
    for one, other, plain in zip(*map(jax.tree.leaves, (found, expected, learned)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        assert not np.allclose(one, plain, rtol=1e-3)
    for one, plain in zip(*map(jax.tree.leaves, (memory.write(strings, as_learned=True).state, learned)), strict=True):
        np.testing.assert_array_equal(one, plain)


def wrong_bits(model, patterns, **how):
    """The mean of one batch of strings, half of whose bits are drawn anew, in a bundled model."""
    strings = jax.random.rademacher(jax.random.key(0), (patterns, 128), dtype=float)
    sound = jax.random.bernoulli(jax.random.key(1), 0.5, strings.shape)
    damaged = np.where(sound, strings, jax.random.rademacher(jax.random.key(2), strings.shape, dtype=float))
    recalled = ebmm.Memory.from_pretrained(model).write(strings, **how).read(damaged, known=sound).patterns
    return float(np.mean(np.sum((recalled > 0) != (strings > 0), axis=1)))


def test_the_bundled_model_of_64_strings_holds_24():
    """Written as it has learned to write 64, they are lost."""
    assert wrong_bits("binary-rnn", 24) < 2
    assert wrong_bits("binary-rnn", 24, as_learned=True) == pytest.approx(32, abs=12)


@pytest.mark.parametrize("model", ["binary-mixed", "binary-reconstruction"])
@pytest.mark.parametrize(("patterns", "paper"), [(1, 0.0), (32, 0.0), (64, 0.5)])
def test_no_more_bits_are_wrong_than_in_the_paper_at_equal_memory(model, patterns, paper):
    assert ebmm.Memory.from_pretrained(model).memory_size == 8256
    assert wrong_bits(model, patterns) <= paper
