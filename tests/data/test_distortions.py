"""Damage costs what it should, lies where it should, and touches nothing else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmm.data.distortions import (
    AbstractDistortion,
    InTurn,
    OneOf,
    RandomBlock,
    ResampledBits,
    SaltAndPepper,
    distortion,
)

KINDS = (
    "block:3",
    "block:3:noise",
    "salt-and-pepper:0.3",
    "bits:0.4",
    "block:2+salt-and-pepper:0.2+bits:0.1",
    "block:2/block:5+bits:0.1/salt-and-pepper:0.3",
)


@eqx.filter_jit
def many(damage, pattern, count, domain=(0.0, 1.0), seed=0):
    """The damaged pattern and its mask, so many times."""
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.vmap(lambda key: damage(pattern, key=key, domain=domain))(keys)


def damaged(damage, pattern, count, domain=(0.0, 1.0), seed=0):
    return tuple(map(np.asarray, many(damage, jnp.asarray(pattern), count, domain, seed)))


def bits(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.float32)


def between(*shape, seed=0):
    """Values that no fill with bits can hit, and noise only by chance."""
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)


def chi_square_is_small(counts):
    counts = np.asarray(counts, float).ravel()
    freedom = counts.size - 1
    return ((counts - counts.mean()) ** 2 / counts.mean()).sum() < freedom + 6 * np.sqrt(2 * freedom)


def close(share, expected, trials):
    """Within six deviations of what so many trials give."""
    return abs(share - expected) < 6 * np.sqrt(expected * (1 - expected) / trials)


# Blocks


def test_a_block_of_16_costs_128_bits_on_average():
    pattern = bits(32, 32, 1)
    queries, _ = damaged(RandomBlock(16), pattern, 2000)
    wrong = (queries != pattern).sum(axis=(1, 2, 3))
    assert abs(wrong.mean() - 128) < 6 * 8 / np.sqrt(2000)  # 256 fair bits deviate by 8
    assert 7 < wrong.std() < 9


def test_blocks_lie_anywhere_in_the_image_edges_included():
    _, kept = damaged(RandomBlock(16), bits(32, 32, 1), 40 * 17 * 17)
    hit = ~kept[..., 0]
    tops, lefts = hit.any(axis=2).argmax(axis=1), hit.any(axis=1).argmax(axis=1)
    counts = np.zeros((17, 17))
    np.add.at(counts, (tops, lefts), 1)
    assert counts.min() > 0
    assert chi_square_is_small(counts)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_mask_is_the_block_and_nothing_else_changes(channels):
    pattern = between(12, 10, channels)
    queries, kept = damaged(RandomBlock(4), pattern, 200)
    for query, mask in zip(queries, kept, strict=True):
        hit = ~mask
        top, left = hit.any(axis=(1, 2)).argmax(), hit.any(axis=(0, 2)).argmax()
        expected = np.zeros(pattern.shape, bool)
        expected[top : top + 4, left : left + 4] = True
        np.testing.assert_array_equal(hit, expected)
        np.testing.assert_array_equal(query[mask], pattern[mask])
        assert set(np.unique(query[hit])) <= {0, 1}


def test_an_image_that_is_not_square_is_hit_everywhere():
    _, kept = damaged(RandomBlock(4), bits(6, 9, 1), 500)
    tops = (~kept).any(axis=(2, 3)).argmax(axis=1)
    lefts = (~kept).any(axis=(1, 3)).argmax(axis=1)
    assert set(tops) == set(range(3))
    assert set(lefts) == set(range(6))


def test_a_block_as_large_as_the_image_leaves_nothing():
    queries, kept = damaged(RandomBlock(6), between(6, 6, 1), 100)
    assert not kept.any()
    assert close(queries.mean(), 0.5, queries.size)


@pytest.mark.parametrize("domain", [(0.0, 1.0), (-1.0, 1.0), (2.0, 5.0)])
def test_noise_is_uniform_over_the_domain(domain):
    low, high = domain
    queries, kept = damaged(RandomBlock(4, "noise"), np.full((8, 8, 3), low, np.float32), 400, domain)
    noise = queries[~kept]
    assert noise.size == 400 * 16 * 3
    assert low <= noise.min()
    assert noise.max() <= high
    counts, _ = np.histogram(noise, bins=20, range=domain)
    assert chi_square_is_small(counts)


@pytest.mark.parametrize("domain", [(0.0, 1.0), (-1.0, 1.0)])
def test_a_block_is_rubbed_out_or_blotted(domain):
    pattern = between(8, 8, 2)
    for fill, value in zip(("low", "high"), domain, strict=True):
        queries, kept = damaged(RandomBlock(3, fill), pattern, 50, domain)
        assert set(queries[~kept]) == {value}
        np.testing.assert_array_equal((~kept).sum(axis=(1, 2, 3)), 3 * 3 * 2)
        np.testing.assert_array_equal(np.where(kept, queries, 0), np.where(kept, pattern, 0))


def damage_with_array_size(size, pattern, key):
    return RandomBlock(size)(pattern, key=key)


compiled = eqx.filter_jit(damage_with_array_size)


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_a_block_of_any_size_has_that_size(size, seed):
    pattern = between(9, 11, 2)
    query, kept = map(np.asarray, compiled(jnp.asarray(size), jnp.asarray(pattern), jax.random.key(seed)))
    hit = ~kept
    assert hit.sum() == size * size * 2
    assert hit.any(axis=(1, 2)).sum() == hit.any(axis=(0, 2)).sum() == size
    np.testing.assert_array_equal(query[kept], pattern[kept])
    assert set(np.unique(query[hit])) <= {0, 1}


# Salt and pepper


def test_salt_and_pepper_hits_at_its_rate_and_half_of_it_is_salt():
    pattern = between(32, 32, 1)
    queries, kept = damaged(SaltAndPepper(0.15), pattern, 200)
    assert close((~kept).mean(), 0.15, kept.size)
    assert chi_square_is_small((~kept).sum(axis=0))
    assert set(np.unique(queries[~kept])) == {0, 1}
    assert close(queries[~kept].mean(), 0.5, (~kept).sum())
    np.testing.assert_array_equal(np.where(kept, queries, 0), np.where(kept, pattern, 0))


def test_salt_and_pepper_hits_all_channels_of_a_pixel_alike():
    pattern = between(16, 16, 3)
    queries, kept = damaged(SaltAndPepper(0.3), pattern, 50)
    for channel in (1, 2):
        np.testing.assert_array_equal(kept[..., channel], kept[..., 0])
        hit = ~kept[..., 0]
        np.testing.assert_array_equal(queries[..., channel][hit], queries[..., 0][hit])
    assert close((~kept[..., 0]).mean(), 0.3, kept[..., 0].size)


def test_salt_and_pepper_on_a_string_hits_each_place_by_itself():
    _, kept = damaged(SaltAndPepper(0.5), between(64), 100)
    assert close(kept.mean(), 0.5, kept.size)
    assert 0 < kept.mean(axis=1).std() < 0.2


@pytest.mark.parametrize("kind", [SaltAndPepper, ResampledBits])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_ends_of_the_scale_hit_nothing_and_everything(kind, share):
    pattern = between(8, 8, 1)
    queries, kept = damaged(kind(share), pattern, 20)
    assert (~kept).mean() == (queries != pattern).mean() == share


# Resampled bits


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_the_share_of_resampled_bits_is_exact_and_half_of_them_change(share):
    pattern = bits(60)
    queries, kept = damaged(ResampledBits(share), pattern, 500)
    np.testing.assert_array_equal((~kept).sum(axis=1), round(share * 60))
    assert close((queries != pattern)[~kept].mean(), 0.5, (~kept).sum())
    np.testing.assert_array_equal((queries != pattern) & kept, False)
    assert chi_square_is_small((~kept).sum(axis=0))
    assert len(np.unique(kept, axis=0)) > 450


def test_bits_of_images_are_resampled_by_value():
    _, kept = damaged(ResampledBits(0.5), bits(8, 8, 3), 50)
    np.testing.assert_array_equal(kept.sum(axis=(1, 2, 3)), 96)
    assert (kept[..., 0] != kept[..., 1]).any()


# All of them


@pytest.mark.parametrize("name", KINDS)
def test_new_values_are_of_the_domain(name):
    pattern = np.where(bits(8, 8, 1) > 0, 1, -1).astype(np.float32)
    queries, kept = damaged(distortion(name), pattern, 200, (-1.0, 1.0))
    new = queries[~kept]
    assert new.min() >= -1
    assert new.max() <= 1
    assert abs(new.mean()) < 6 / np.sqrt(new.size)
    if "noise" not in name:
        assert set(np.unique(new)) == {-1, 1}
    np.testing.assert_array_equal(np.where(kept, queries, 0), np.where(kept, pattern, 0))


@pytest.mark.parametrize("name", KINDS)
def test_the_key_alone_decides_the_damage_compiled_or_not(name):
    pattern, damage = jnp.asarray(between(8, 8, 1)), distortion(name)
    first, mask = damage(pattern, key=jax.random.key(3))
    assert first.dtype == pattern.dtype
    assert mask.dtype == bool
    assert first.shape == mask.shape == pattern.shape
    compiled, same_mask = jax.jit(lambda key: damage(pattern, key=key))(jax.random.key(3))
    np.testing.assert_array_equal(first, compiled)
    np.testing.assert_array_equal(mask, same_mask)
    other, _ = damage(pattern, key=jax.random.key(4))
    assert (first != other).any()


@pytest.mark.parametrize("name", KINDS)
def test_a_batch_is_damaged_one_by_one(name):
    patterns, keys = jnp.asarray(between(5, 8, 8, 1)), jax.random.split(jax.random.key(0), 5)
    damage = distortion(name)
    together, masks = jax.vmap(lambda pattern, key: damage(pattern, key=key))(patterns, keys)
    for i in range(5):
        alone, mask = damage(patterns[i], key=keys[i])
        np.testing.assert_array_equal(together[i], alone)
        np.testing.assert_array_equal(masks[i], mask)
    assert len(np.unique(np.asarray(masks).reshape(5, -1), axis=0)) > 1


@pytest.mark.parametrize(
    ("kind", "strengths"),
    [(RandomBlock, (1, 3, 8)), (SaltAndPepper, (0.0, 0.15, 1.0)), (ResampledBits, (0.0, 0.25, 0.6))],
)
def test_one_compiled_function_serves_every_strength(kind, strengths):
    pattern, traces = jnp.asarray(between(8, 8, 1)), []

    @jax.jit
    def damage(strength, key):
        traces.append(strength)
        return kind(strength)(pattern, key=key)

    for seed, strength in enumerate(strengths):
        key = jax.random.key(seed)
        traced, fixed = damage(jnp.asarray(strength), key), kind(strength)(pattern, key=key)
        np.testing.assert_array_equal(traced[0], fixed[0])
        np.testing.assert_array_equal(traced[1], fixed[1])
    assert len(traces) == 1


def test_a_strength_for_each_pattern():
    sizes = jnp.array([1, 2, 5])
    keys = jax.random.split(jax.random.key(0), 3)
    pattern = jnp.asarray(between(8, 8, 1))
    _, kept = jax.vmap(lambda size, key: RandomBlock(size)(pattern, key=key))(sizes, keys)
    np.testing.assert_array_equal((~kept).sum(axis=(1, 2, 3)), [1, 4, 25])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", KINDS)
def test_float64_stays_float64(name):
    damage, pattern = distortion(name), jax.ShapeDtypeStruct((8, 8, 3), jnp.float64)
    query, _ = jax.eval_shape(lambda pattern: damage(pattern, key=jax.random.key(0)), pattern)
    assert query.dtype == jnp.float64


# One after the other


class Paint(AbstractDistortion):
    """Sets some rows to a value."""

    rows: slice = eqx.field(static=True)
    value: float = eqx.field(static=True)

    def __call__(self, pattern, *, key, domain=(0.0, 1.0)):
        hit = jnp.zeros(pattern.shape, bool).at[self.rows].set(True)
        return jnp.where(hit, self.value, pattern), ~hit

    @property
    def name(self):
        return "paint"


def test_damage_in_turn_is_applied_in_turn_and_the_mask_is_what_all_left_alone():
    query, kept = InTurn((Paint(slice(0, 4), 0.2), Paint(slice(2, 6), 0.3)))(jnp.ones(8), key=jax.random.key(0))
    np.testing.assert_allclose(query, [0.2, 0.2, 0.3, 0.3, 0.3, 0.3, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(kept, [False] * 6 + [True] * 2)


def test_damage_in_turn_is_independent():
    _, kept = damaged(InTurn((ResampledBits(0.5), ResampledBits(0.5))), bits(64), 500)
    assert abs(kept.mean() - 0.25) < 0.01


def test_a_block_and_salt_and_pepper_in_turn():
    pattern = between(16, 16, 1)
    queries, kept = damaged(distortion("block:8+salt-and-pepper:0.1"), pattern, 400)
    assert close(kept.mean(), 0.75 * 0.9, 16 * 16 * 400)
    np.testing.assert_array_equal(np.where(kept, queries, 0), np.where(kept, pattern, 0))


# One of several


def test_one_of_several_is_drawn_for_each_pattern_all_equally_often():
    pattern, count = between(8, 8, 1), 3000
    queries, kept = damaged(distortion("block:2:low/block:3:high/block:8:low+bits:0.5"), pattern, count)
    sizes = (~kept).sum(axis=(1, 2, 3))
    for size in (4, 9, 64):
        assert close((sizes == size).mean(), 1 / 3, count)
    assert set(np.unique(sizes)) == {4, 9, 64}
    assert set(queries[sizes == 4][~kept[sizes == 4]]) == {0}
    assert set(queries[sizes == 9][~kept[sizes == 9]]) == {1}
    np.testing.assert_array_equal(np.where(kept, queries, 0), np.where(kept, pattern, 0))


# Names


@pytest.mark.parametrize("name", [*KINDS, "block:16", "salt-and-pepper:0", "bits:1", "bits:0.125", "bits:1e-05"])
def test_a_name_says_it_all(name):
    damage = distortion(name)
    assert damage.name == name
    assert distortion(damage.name) == damage


def test_names_give_the_kinds():
    assert distortion("block:16") == distortion("block:16:bits") == RandomBlock(16)
    assert distortion("block:16:noise") == RandomBlock(16, "noise")
    assert distortion("salt-and-pepper:0.15") == SaltAndPepper(0.15)
    assert distortion("bits:0.5") == ResampledBits(0.5)
    assert distortion("block:8+bits:0.1") == InTurn((RandomBlock(8), ResampledBits(0.1)))
    assert distortion("block:8/block:9+bits:0.1") == OneOf(
        (RandomBlock(8), InTurn((RandomBlock(9), ResampledBits(0.1))))
    )
    assert distortion("block:5:high") == RandomBlock(5, "high")
    assert SaltAndPepper(jnp.asarray(0.25)).name == "salt-and-pepper:0.25"
    assert RandomBlock(jnp.asarray(4)).name == "block:4"


@pytest.mark.parametrize(
    "text",
    [
        *("", "blur:3", "block", "block:", "block:x", "block:-1", "block:1.5", "block:16:x", "block:16:noise:noise"),
        *("bits", "bits:half", "salt-and-pepper", "salt-and-pepper:0.1:0.2", "block:16+", "+", "block:8 + blur:2"),
        *("/", "block:8/", "block:8//block:9", "block:8:grey"),
    ],
)
def test_text_that_names_no_damage_is_refused(text):
    with pytest.raises(ValueError, match=r"^damage .*: expected block:SIZE, block:SIZE:noise \(or"):
        distortion(text)


@pytest.mark.parametrize(
    "text", ["block:0", "salt-and-pepper:1.1", "salt-and-pepper:-0.1", "salt-and-pepper:nan", "bits:2", "bits:inf"]
)
def test_values_outside_their_limits_are_refused(text):
    with pytest.raises(ValueError, match="got .*; expected a (whole )?number from"):
        distortion(text)


@pytest.mark.parametrize("make", [lambda: RandomBlock(0), lambda: RandomBlock(True), lambda: RandomBlock(-3)])
def test_a_block_needs_a_whole_positive_size(make):
    with pytest.raises(ValueError, match="block size: got .*; expected a whole number from 1"):
        make()


def test_a_block_needs_an_image_that_is_large_enough(key):
    with pytest.raises(ValueError, match="block: got size 9; expected at most 8, the image's own"):
        RandomBlock(9)(jnp.zeros((8, 12, 1)), key=key)
    with pytest.raises(ValueError, match=r"block: got a pattern of shape \(8,\); expected an image"):
        RandomBlock(2)(jnp.zeros(8), key=key)


@pytest.mark.parametrize("kind", [SaltAndPepper, ResampledBits])
def test_no_digit_is_lost_in_a_name(kind):
    assert distortion(kind(0.123456789).name) == kind(0.123456789)
