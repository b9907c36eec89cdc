"""Images are held as small as they are, and drawn without repeats, every choice equally likely."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmm.data.binary import RandomBits, strings
from ebmm.data.images import Binarised, Correlated, Images
from ebmm.data.sampling import distinct


def numbered(labels):
    """Images of two bytes that hold the number of the image."""
    numbers = np.arange(len(labels))
    pixels = np.stack([numbers // 256, numbers % 256], axis=1).astype(np.uint8).reshape(-1, 1, 2, 1)
    return Images.packed(pixels, labels, levels=255)


def numbers_of(drawn):
    """The numbers of drawn images [..., 1, 2, 1]."""
    values = np.round(np.asarray(drawn)[..., 0, :, 0] * 255).astype(int)
    return values[..., 0] * 256 + values[..., 1]


def uniform(counts):
    """Whether counts are as even as chance makes them: chi-square within six deviations of what is expected."""
    counts = np.asarray(counts, float).ravel()
    chi_square = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    freedom = counts.size - 1
    return counts.mean() >= 20 and chi_square < freedom + 6 * np.sqrt(2 * freedom)


def keys(count, seed=0):
    return jax.random.split(jax.random.key(seed), count)


@pytest.mark.parametrize("shape", [(32, 32, 1), (5, 3, 1), (4, 7, 3)])
@pytest.mark.parametrize("levels", [1, 255])
def test_pixels_survive_packing(shape, levels, rng):
    pixels = rng.integers(0, levels + 1, (9, *shape), np.uint8)
    images = Images.packed(pixels, np.arange(9), levels=levels)
    assert len(images) == 9
    assert images.pattern_shape == shape
    assert images.domain == (0.0, 1.0)
    size = np.prod(shape)
    assert images.stored.nbytes == 9 * (np.ceil(size / 8) if levels == 1 else size)
    values = np.asarray(images.take(np.arange(9)))
    assert values.dtype == np.float32
    np.testing.assert_array_equal(np.round(values * levels), pixels)
    np.testing.assert_allclose(values, pixels / levels, rtol=1e-6)
    np.testing.assert_array_equal(images.labels, np.arange(9))


def test_images_are_taken_inside_a_compiled_function_by_place(rng):
    pixels = rng.integers(0, 2, (9, 5, 3, 1), np.uint8)
    images = Images.packed(pixels, np.zeros(9), levels=1)
    taken = eqx.filter_jit(lambda images, places: images.take(places))(images, jnp.array([7, 0, 7]))
    np.testing.assert_array_equal(taken, pixels[[7, 0, 7]])


def test_hashes_tell_images_apart(rng):
    pixels = rng.integers(0, 2, (4, 8, 8, 1), np.uint8)
    hashes = set(Images.packed(pixels, np.zeros(4), levels=1).hashes())
    assert len(hashes) == 4
    assert len(hashes & set(Images.packed(pixels[[1, 1, 2]], np.arange(3), levels=1).hashes())) == 2
    pixels[1, 0, 0] ^= 1
    assert len(hashes & set(Images.packed(pixels, np.zeros(4), levels=1).hashes())) == 3


def test_images_without_others_are_those_whose_pixels_differ(rng):
    pixels = rng.integers(0, 2, (6, 8, 8, 1), np.uint8)
    rest = Images.packed(pixels, np.arange(6), levels=1).without(Images.packed(pixels[[4, 1]], [0, 0], levels=1))
    np.testing.assert_array_equal(rest.labels, [0, 2, 3, 5])
    np.testing.assert_array_equal(rest.take(np.arange(4)), pixels[[0, 2, 3, 5]])


SMALL, LARGE = (3, 20), (3, 200)  # shuffled, and drawn with what is repeated left out


@pytest.mark.parametrize(("count", "size"), [SMALL, LARGE])
def test_drawn_places_are_different_and_all_equally_likely_at_every_turn(count, size):
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: distinct(count, size, key=key)))(keys(100 * size)))
    assert drawn.shape == (100 * size, count)
    assert drawn.min() == 0
    assert drawn.max() == size - 1
    assert all(len(set(row)) == count for row in drawn.tolist())
    for turn in drawn.T:
        assert uniform(np.bincount(turn, minlength=size))
    between = (drawn[:, 1] - drawn[:, 0]) % size  # a second place that depends on the first would show here
    assert uniform(np.bincount(between, minlength=size)[1:])


@pytest.mark.parametrize(("count", "size"), [(1, 1), (7, 7), (64, 1151), (64, 1152), (200, 4000)])
def test_draws_of_any_size_never_repeat(count, size):
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: distinct(count, size, key=key)))(keys(50)))
    assert drawn.min() >= 0
    assert drawn.max() < size
    assert all(len(set(row)) == count for row in drawn.tolist())
    assert count == 1 or len(np.unique(drawn, axis=0)) == 50


@pytest.mark.parametrize(("count", "size"), [(0, 5), (-1, 5), (6, 5), (1, 0)])
def test_more_than_there_is_or_nothing_is_refused(count, size, key):
    with pytest.raises(ValueError, match=f"got {count} to draw from {size} without repeats; expected 1 to {size}"):
        distinct(count, size, key=key)


@pytest.mark.parametrize(("count", "size"), [SMALL, LARGE])
def test_drawn_images_are_different_and_all_equally_likely(count, size):
    draws = eqx.filter_jit(lambda images, keys: jax.vmap(lambda key: images.draw(count, key=key))(keys))
    drawn = numbers_of(draws(numbered(np.zeros(size)), keys(20 * size)))
    assert all(len(set(row)) == count for row in drawn.tolist())
    assert uniform(np.bincount(drawn.ravel(), minlength=size))


def test_the_key_alone_decides_what_is_drawn():
    images = numbered(np.zeros(200))
    first, same, other = (numbers_of(images.draw(5, key=jax.random.key(seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert set(first) != set(other)


LABELS = np.repeat([40, 10, 70, 20, 50], [9, 3, 5, 4, 3])  # of unequal size, and in no order


@pytest.fixture(scope="module")
def correlated():
    """The numbers and the labels of six images of two classes each, many times."""
    shuffled = np.random.default_rng(0).permutation(LABELS)
    draws = eqx.filter_jit(lambda source, keys: jax.vmap(lambda key: source.draw(6, key=key))(keys))
    drawn = numbers_of(draws(Correlated(numbered(shuffled), classes=2), keys(4000)))
    return drawn, shuffled


def test_correlated_images_are_equally_many_of_exactly_so_many_classes(correlated):
    drawn, labels = correlated
    for row in labels[drawn]:
        assert np.unique(row, return_counts=True)[1].tolist() == [3, 3]


def test_correlated_images_never_repeat(correlated):
    drawn, _ = correlated
    assert all(len(set(row)) == 6 for row in drawn.tolist())


def test_classes_are_equally_likely_and_so_are_the_images_of_each(correlated):
    drawn, labels = correlated
    pairs = np.unique([np.unique(row) for row in labels[drawn]], axis=0, return_counts=True)[1]
    assert len(pairs) == 10  # all pairs of five classes
    assert uniform(pairs)
    counts = np.bincount(drawn.ravel(), minlength=len(labels))
    for name in np.unique(labels):
        assert uniform(counts[labels == name])


def test_correlated_keeps_the_shape_and_the_domain(small_images):
    source = Correlated(small_images, classes=10)
    assert (source.pattern_shape, source.domain) == (small_images.pattern_shape, small_images.domain)
    assert source.draw(20, key=jax.random.key(0)).shape == (20, 8, 8, 1)


@pytest.mark.parametrize("classes", [0, -1, 6])
def test_correlated_refuses_classes_that_there_are_not(classes):
    with pytest.raises(ValueError, match=f"classes: got {classes}; expected 1 to 5"):
        Correlated(numbered(LABELS), classes=classes)


@pytest.mark.parametrize("count", [0, 5, 8])
def test_correlated_refuses_unequal_shares_and_more_than_the_smallest_class(count, key):
    with pytest.raises(ValueError, match=f"got {count} images of 2 classes; .* at most 3"):
        Correlated(numbered(LABELS), classes=2).draw(count, key=key)


def test_binarised_images_are_one_where_the_mean_of_the_channels_is_above_a_half(rng):
    pixels = rng.integers(0, 256, (30, 4, 5, 3), np.uint8)
    images = Images.packed(pixels, np.zeros(30), levels=255)
    source = Binarised(images)
    assert (source.pattern_shape, source.domain) == ((4, 5, 1), (0.0, 1.0))
    drawn = np.asarray(source.draw(30, key=jax.random.key(0)))
    colours = np.asarray(images.draw(30, key=jax.random.key(0)))  # the same images in the same order
    np.testing.assert_array_equal(drawn[..., 0], colours.astype(np.float64).mean(axis=-1) > 0.5)


def test_random_bits_are_fair_and_of_the_domain():
    for source, values in ((strings(7), (-1, 1)), (RandomBits((3, 4, 1), (0.0, 1.0)), (0, 1))):
        drawn = np.asarray(jax.jit(partial(source.draw, 2000))(key=jax.random.key(0)))
        assert drawn.shape == (2000, *source.pattern_shape)
        assert set(np.unique(drawn)) == set(values)
        share = (drawn == values[1]).mean(axis=0)
        assert abs(share - 0.5).max() < 6 * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize(("shape", "domain"), [((), (0.0, 1.0)), ((3, 0), (0.0, 1.0)), ((3,), None)])
def test_random_bits_need_a_shape_and_a_domain(shape, domain):
    with pytest.raises(ValueError, match="expected positive lengths and an interval"):
        RandomBits(shape, domain)


@pytest.mark.parametrize(
    ("pixels", "levels"),
    [
        (np.random.default_rng(0).random((2, 4, 4, 1)), 255),
        (np.full((2, 4, 4, 1), 2), 1),
        (np.zeros((4, 4, 1), int), 1),
        (np.zeros((2, 4, 4, 1), int), 7),
        (np.zeros((0, 4, 4, 1), int), 1),
    ],
)
def test_pixels_that_would_lose_something_are_refused(pixels, levels):
    """Floats between 0 and 1, say, would all become black."""
    with pytest.raises(ValueError, match="expected"):
        Images.packed(pixels, np.zeros(len(pixels)), levels=levels)


def test_every_image_has_a_label():
    with pytest.raises(ValueError, match="expected one for each of 2 images"):
        Images.packed(np.zeros((2, 4, 4, 1), int), np.zeros(3), levels=1)
