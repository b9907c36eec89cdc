"""An episode: patterns without repeats, damaged copies of them, and what may be known of the damage."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest

from ebmm.data.binary import string_episode
from ebmm.data.distortions import RandomBlock, ResampledBits, SaltAndPepper
from ebmm.data.episodes import Episodes
from ebmm.data.images import Correlated, Images


@pytest.fixture(scope="module")
def images():
    pixels = np.random.default_rng(1).integers(0, 256, (60, 6, 6, 1), np.uint8)
    return Images.packed(pixels, np.arange(60) % 6, levels=255)


draw = eqx.filter_jit(lambda episodes, key: episodes(key))


def test_the_mask_is_told_only_where_it_is_to_be_revealed(images, key):
    assert draw(Episodes(images, RandomBlock(3), 5), key).known is None
    patterns, queries, known = draw(Episodes(images, RandomBlock(3), 5, reveal=True), key)
    assert patterns.shape == queries.shape == known.shape == (5, 6, 6, 1)
    np.testing.assert_array_equal((~known).sum(axis=(1, 2, 3)), 9)
    np.testing.assert_array_equal(np.where(known, queries, 0), np.where(known, patterns, 0))


@pytest.mark.parametrize("reveal", [True, False])
def test_a_judge_sees_the_same_episode_with_its_mask(reveal, images, key):
    episodes = Episodes(images, SaltAndPepper(0.3), 5, reveal=reveal)
    episode = episodes(key)
    patterns, queries, mask = episodes.with_mask(key)
    np.testing.assert_array_equal(patterns, episode.patterns)
    np.testing.assert_array_equal(queries, episode.queries)
    assert mask.dtype == bool
    np.testing.assert_array_equal(np.where(mask, queries, 0), np.where(mask, patterns, 0))
    assert (queries != patterns)[~mask].mean() > 0.9  # no image holds only black and white


def test_patterns_are_images_and_none_comes_twice(images):
    drawn = jax.vmap(Episodes(images, RandomBlock(3), 60))(jax.random.split(jax.random.key(0), 3)).patterns
    for patterns in np.round(np.asarray(drawn) * 255).astype(np.uint8):
        assert sorted(pattern.tobytes() for pattern in patterns) == sorted(row.tobytes() for row in images.stored)


def test_each_copy_has_damage_of_its_own(images, key):
    _, _, masks = Episodes(images, ResampledBits(0.5), 20).with_mask(key)
    assert len(np.unique(np.asarray(masks).reshape(20, -1), axis=0)) == 20


def test_several_copies_of_each_pattern_are_damaged_each_by_itself(images, key):
    episodes = Episodes(images, ResampledBits(0.5), 5, copies=3, reveal=True)
    patterns, queries, known = draw(episodes, key)
    assert patterns.shape == (5, 6, 6, 1)
    assert queries.shape == known.shape == (15, 6, 6, 1)
    wanted = np.tile(patterns, (3, 1, 1, 1))
    np.testing.assert_array_equal(np.where(known, queries, 0), np.where(known, wanted, 0))
    assert len(np.unique(np.asarray(known).reshape(15, -1), axis=0)) == 15
    np.testing.assert_array_equal(patterns, draw(Episodes(images, ResampledBits(0.5), 5), key).patterns)
    with pytest.raises(ValueError, match="copies: got 0; expected at least 1"):
        Episodes(images, ResampledBits(0.5), 5, copies=0)


def test_the_key_decides_the_episode(images):
    episodes = Episodes(images, RandomBlock(3), 5)
    first, same, other = (draw(episodes, jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.queries, same.queries)
    assert (first.patterns != other.patterns).any()


def test_the_images_are_an_argument_of_the_compiled_function_and_not_compiled_into_it(images, key):
    traces = []

    @eqx.filter_jit
    def patterns_of(episodes, key):
        traces.append(episodes)
        return episodes(key).patterns

    reversed_pixels = 255 - np.asarray(images.stored).reshape(-1, 6, 6, 1)
    others = Images.packed(reversed_pixels, images.labels, levels=255)
    some, reverse = (patterns_of(Episodes(source, RandomBlock(3), 5), key) for source in (images, others))
    assert len(traces) == 1
    np.testing.assert_allclose(some, 1 - reverse, atol=1e-6)


def test_the_images_are_put_on_the_accelerator_once(images):
    source = Episodes(images, RandomBlock(3), 5).source
    assert isinstance(images.stored, np.ndarray)
    assert isinstance(source.stored, jax.Array)
    assert isinstance(source.labels, jax.Array)


def test_episodes_of_a_few_classes(images, key):
    episode = draw(Episodes(Correlated(images, classes=2), RandomBlock(3), 8), key)
    known = {row.tobytes(): label for row, label in zip(np.asarray(images.stored), images.labels, strict=True)}
    drawn = np.round(np.asarray(episode.patterns) * 255).astype(np.uint8).reshape(8, -1)
    labels = [int(known[row.tobytes()]) for row in drawn]
    assert sorted(np.bincount(labels, minlength=6).tolist()) == [0, 0, 0, 0, 4, 4]


def test_the_damage_uses_the_domain_of_the_patterns(string_episodes):
    episode = draw(string_episodes, jax.random.key(0))
    assert set(np.unique(episode.queries)) == {-1, 1}


@pytest.mark.parametrize("patterns", [0, -1])
def test_an_episode_needs_patterns(patterns, images):
    with pytest.raises(ValueError, match=f"patterns: got {patterns}; expected at least 1"):
        Episodes(images, RandomBlock(3), patterns)


def test_more_patterns_than_there_are_images_are_refused(images, key):
    with pytest.raises(ValueError, match="got 61 to draw from 60 without repeats"):
        Episodes(images, RandomBlock(3), 61)(key)


def test_half_of_the_bits_of_a_string_are_known_and_a_quarter_is_wrong():
    patterns, queries, known = jax.jit(partial(string_episode, patterns=1000, bits=40))(jax.random.key(0))
    assert set(np.unique(patterns)) == set(np.unique(queries)) == {-1, 1}
    np.testing.assert_array_equal(known.sum(axis=1), 20)
    np.testing.assert_array_equal(np.where(known, queries, 0), np.where(known, patterns, 0))
    wrong = np.asarray(queries != patterns)
    assert abs(wrong.sum(axis=1).mean() - 10) < 6 * np.sqrt(20 / 4 / 1000)
    assert abs(np.asarray(patterns).mean()) < 6 / np.sqrt(patterns.size)
    assert len(np.unique(np.asarray(patterns), axis=0)) == 1000
