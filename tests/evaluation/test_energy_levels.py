"""Energies of what is stored and of what is not."""

import jax
import numpy as np
import pytest

from ebmm.data.binary import RandomBits
from ebmm.data.distortions import RandomBlock
from ebmm.data.episodes import Episodes
from ebmm.data.images import Images
from ebmm.evaluation.energy_levels import energy_levels, told_apart


def test_each_kind_has_the_energy_that_the_model_gives_it(rnn, string_episodes, key):
    unlike = {"random bits": RandomBits(pattern_shape=(6,), domain=(-1.0, 1.0))}
    levels = energy_levels(rnn, string_episodes, key=key, unlike=unlike, batches=3)
    assert list(levels) == ["memories", "damaged memories", "recalled", "non-memories", "random bits"]
    assert all(values.shape == (3, 4) for values in levels.values())
    stored, queries, known = string_episodes(jax.random.split(jax.random.fold_in(key, 1), 5)[0])
    state = rnn.write(stored)
    out = rnn.read(state, queries, known=known)
    np.testing.assert_allclose(levels["memories"][1], rnn.energies(state, stored), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(levels["damaged memories"][1], out.energies[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(levels["recalled"][1], out.energies[-1], rtol=1e-4, atol=1e-5)


def test_a_non_memory_that_is_stored_as_well_is_left_out(conv, small_images, key):
    few = Images.packed(np.asarray(small_images.take(np.arange(5))) > 0, np.zeros(5), levels=1)
    levels = energy_levels(conv, Episodes(few, RandomBlock(4), 5), key=key, batches=2)
    assert levels["non-memories"].mask.all()
    assert not np.ma.getmaskarray(levels["memories"]).any()


def test_telling_apart_is_the_share_of_pairs_in_the_right_order():
    memories = np.ma.array([[0.0, 1.0], [10.0, 10.0]])
    others = np.ma.masked_array([[0.5, 2.0], [10.0, -5.0]], mask=[[False, False], [False, True]])
    assert told_apart(memories, others) == pytest.approx((3 + 2 * 0.5) / 6)
    assert told_apart(memories, memories - 1) < 0.5


def test_patterns_of_another_shape_are_refused(rnn, string_episodes, key):
    unlike = {"longer": RandomBits(pattern_shape=(7,), domain=(-1.0, 1.0))}
    with pytest.raises(ValueError, match=r"longer: got patterns of shape \(7,\); expected \(6,\)"):
        energy_levels(rnn, string_episodes, key=key, unlike=unlike, batches=1)
