"""The yardsticks: what can be had without a clever memory."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmm.data.omniglot_sample import OMNIGLOT_SAMPLE
from ebmm.evaluation.errors import measure_errors
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.evaluation.yardsticks import blanked, deflated, exact_bits, nearest_stored


def test_blanking_fills_in_the_mean_of_what_is_undamaged_in_each_channel(rng):
    queries = rng.random((3, 4, 4, 2)).astype(np.float32)
    undamaged = rng.random((3, 4, 4, 2)) < 0.6
    found = np.asarray(blanked(jnp.asarray(queries), jnp.asarray(undamaged)))
    for query, kept, filled in zip(queries, undamaged, found, strict=True):
        for channel in range(2):
            mean = query[..., channel][kept[..., channel]].mean()
            expected = np.where(kept[..., channel], query[..., channel], mean)
            np.testing.assert_allclose(filled[..., channel], expected, rtol=1e-5)


def test_blanking_needs_nothing_undamaged():
    assert np.all(np.asarray(blanked(jnp.ones((1, 6)), jnp.zeros((1, 6), bool))) == 0)


def test_the_nearest_stored_pattern_is_found_by_undamaged_values_alone(rng):
    stored = rng.choice([0.0, 1.0], (9, 30)).astype(np.float32)
    undamaged = rng.random((9, 30)) < 0.5
    queries = np.where(undamaged, stored, 1 - stored).astype(np.float32)
    queries = queries[::-1].copy()
    distances = np.sum(undamaged[::-1][:, None] * (queries[:, None] - stored[None]) ** 2, axis=-1)
    found = np.asarray(nearest_stored(jnp.asarray(stored), jnp.asarray(queries), jnp.asarray(undamaged[::-1].copy())))
    np.testing.assert_array_equal(found, stored[distances.argmin(axis=1)])
    np.testing.assert_array_equal(found, stored[::-1])


@pytest.mark.parametrize(
    ("patterns", "domain", "plain_bytes"),
    [
        (np.array([[1.0, -1.0] * 8]), (-1.0, 1.0), 2),
        (np.array([[0.0, 1.0] * 8]), (0.0, 1.0), 2),
        (np.array([[0.0, 128 / 255, 1.0, 3 / 255]]), (0.0, 1.0), 4),
        (np.array([[0.1, 0.2]]), (0.0, 1.0), 8),
        (np.array([[0.1, 5.0]]), None, 8),
    ],
)
def test_an_exact_store_takes_bits_bytes_or_floats_whichever_lose_nothing(patterns, domain, plain_bytes):
    assert len(zlib.decompress(deflated(patterns, domain), wbits=-15)) == plain_bytes
    assert exact_bits(patterns, domain) == 8 * len(deflated(patterns, domain))


def test_random_strings_cannot_be_deflated_and_drawings_can():
    random = np.random.default_rng(0).choice([-1.0, 1.0], (64, 128))
    assert 64 * 128 <= exact_bits(random, (-1.0, 1.0)) < 64 * 128 * 1.02
    drawings, _ = OMNIGLOT_SAMPLE.load("test")
    assert exact_bits(drawings[:64], (0.0, 1.0)) < 64 * 1024 / 3


def test_the_yardsticks_of_drawings_are_those_of_the_paper(key):
    """Half of a block of 256 pixels is wrong as it is, and blanking costs the ink that was under it."""
    errors = measure_errors(None, PROTOCOLS["omniglot-sample"].episodes(), key=key, batches=20)
    assert errors.nothing.mean() == pytest.approx(128, abs=1)
    drawings, _ = OMNIGLOT_SAMPLE.load("test")
    blocks = jax.lax.reduce_window(drawings, 0.0, jax.lax.add, (1, 16, 16, 1), (1, 1, 1, 1), "valid")
    assert errors.blanked.mean() == pytest.approx(float(jnp.mean(blocks)), rel=0.05)
    assert errors.exact.mean() < 2
    assert errors.iterates is None
    with pytest.raises(ValueError, match="Only the yardsticks"):
        _ = errors.read
