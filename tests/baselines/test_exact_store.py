"""The exact store of bits, read by the nearest pattern."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, strings

from ebmm.baselines.exact_store import ExactStore, pack, unpack
from ebmm.evaluation.yardsticks import nearest_stored


@eqx.filter_jit
def recall(model, stored, queries, known=None):
    return model.read(model.write(stored), queries, known=known)


@pytest.mark.parametrize("size", [1, 31, 32, 70])
def test_packing_is_numpys(size, rng):
    bits = rng.random((3, size)) < 0.5
    padded = np.pad(bits, [(0, 0), (0, -size % 32)])
    expected = np.packbits(padded, axis=1, bitorder="little").view("<u4")
    words = pack(jnp.asarray(bits))
    np.testing.assert_array_equal(words, expected)
    np.testing.assert_array_equal(unpack(words[1], size), bits[1])


def test_memory_is_the_words_that_writing_changes():
    """32 bits a word: a batch of 64 drawings of 32×32 takes 2048, where floats would take 65536."""
    assert ExactStore((32, 32, 1), patterns=64).memory_size == 2048
    model = ExactStore((70,), patterns=6, domain=(-1.0, 1.0))
    state = model.write(jnp.ones((6, 70)))
    assert model.memory_size == 6 * 3 == state.size
    assert np.all(np.asarray(state) != np.asarray(model.initial_state))


def test_the_nearest_pattern_is_that_of_plain_differences():
    """The evaluation's own yardstick, which knows nothing of words, gives the same answers."""
    stored, queries = strings(8, 45), strings(16, 45, seed=1)
    known = jax.random.bernoulli(jax.random.key(2), 0.6, queries.shape)
    model = ExactStore((45,), patterns=8, domain=(-1.0, 1.0))
    state = model.write(stored)
    out = model.read(state, queries, known=known)
    expected = jnp.where(known, queries, nearest_stored(stored, queries, known))
    np.testing.assert_array_equal(out.patterns, expected)
    everywhere = nearest_stored(stored, queries, jnp.ones_like(known))
    np.testing.assert_array_equal(model.read(state, queries).patterns, everywhere)


def test_only_known_dimensions_are_compared():
    """The query is the first pattern where it is known and the second in all else."""
    stored = jnp.array([[0.0] * 8, [1.0] * 8])
    query, known = jnp.array([[0.0] * 3 + [1.0] * 5]), jnp.arange(8)[None] < 3
    model = ExactStore((8,), patterns=2)
    np.testing.assert_array_equal(recall(model, stored, query).patterns[0], stored[1])
    np.testing.assert_array_equal(recall(model, stored, query, known=known).patterns[0], stored[0])


def test_the_energy_is_the_distance_to_the_nearest_pattern():
    stored, queries = strings(5, 40), strings(7, 40, seed=1)
    model = ExactStore((40,), patterns=5, domain=(-1.0, 1.0))
    state = model.write(stored)
    distances = (np.asarray(queries)[:, None] != np.asarray(stored)[None]).sum(2).min(1)
    np.testing.assert_array_equal(model.energies(state, queries), distances)
    energies = model.read(state, queries).energies
    np.testing.assert_array_equal(energies, [distances, np.zeros(7)])


def test_a_store_may_be_partly_full():
    stored, queries = strings(3, 40), strings(9, 40, seed=1)
    few, many = (ExactStore((40,), patterns=n, domain=(-1.0, 1.0)) for n in (3, 11))
    first, second = (recall(model, stored, queries).patterns for model in (few, many))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(ValueError, match="got 3 patterns"):
        ExactStore((40,), patterns=2, domain=(-1.0, 1.0)).write(stored)


def test_only_bits_can_be_stored():
    with pytest.raises(ValueError, match="holds bits"):
        ExactStore((4,), domain=None)
    with pytest.raises(ValueError, match="holds bits"):
        ExactStore((2, 2, 1), patterns=1).write(images(1, 2, 2, 1))


@pytest.mark.parametrize("wrong", [{"pattern_shape": ()}, {"patterns": 0}, {"domain": (1.0, 0.0)}])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        ExactStore(**({"pattern_shape": (8,)} | wrong))


def test_jit_and_vmap():
    model = ExactStore((40,), patterns=3, domain=(-1.0, 1.0))
    episodes = strings(2, 3, 40)
    recalled = jax.jit(jax.vmap(lambda patterns: model.read(model.write(patterns), patterns).patterns))(episodes)
    np.testing.assert_array_equal(recalled, episodes)
