"""The codec: shapes, domains, a decoder that mirrors the encoder, and both learn together."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import images, strings

from ebmm.baselines.codec import UpBlock, clamp, codec_for, cross_entropy, from_logits, hide_damage, to_signs


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x)))


def test_images_come_back_in_their_shape_and_domain(key):
    shape = (9, 13, 3)  # halved three times and doubled three times, with something to cut off each time

    @jax.jit
    def through(image):
        codec = codec_for(shape, (-2.0, 3.0), code=10, channels=2, key=key)
        code = codec.encode(image)
        return code, codec.decode(5 * code), codec.decode_logits(5 * code)

    code, decoded, logits = through(images(*shape))
    assert code.shape == (10,)
    assert decoded.shape == shape
    assert -2 < decoded.min() < decoded.max() < 3
    np.testing.assert_allclose(decoded, -2 + 5 * sigmoid(logits), atol=1e-4)


def test_a_block_of_the_decoder_equals_plain_sums(key, rng):
    block = UpBlock(2, 3, size=(5, 6), key=key)
    image = rng.normal(size=(3, 3, 2)).astype(np.float32)

    def convolved(values, layer):
        kernel, bias = np.asarray(layer.kernel), np.asarray(layer.bias)
        margin = kernel.shape[0] // 2
        padded = np.pad(values, [(margin, margin), (margin, margin), (0, 0)])
        out = np.zeros((*values.shape[:2], kernel.shape[-1]))
        for row in range(values.shape[0]):
            for column in range(values.shape[1]):
                window = padded[row : row + kernel.shape[0], column : column + kernel.shape[0]]
                out[row, column] = np.einsum("ijc,ijco->o", window, kernel) + bias
        return out

    def normed(values):
        return (values - values.mean()) / np.sqrt(values.var() + 1e-5)

    enlarged = np.kron(image, np.ones((2, 2, 1)))[:5, :6]
    x = np.tanh(normed(convolved(enlarged, block.first)))
    y = np.tanh(normed(convolved(x, block.second) + x))
    np.testing.assert_allclose(block(jnp.asarray(image)), x + y + convolved(enlarged, block.skip), atol=1e-4)


def test_an_image_can_be_learned_through_its_code(key):
    """Each of two images is told apart only if gradients pass through decoder and encoder."""
    pictures, optimizer = images(2, 8, 8, 1), optax.adam(0.01)

    def error(codec):
        return jnp.sum((jax.vmap(lambda x: codec.decode(codec.encode(x)))(pictures) - pictures) ** 2)

    @eqx.filter_jit
    def errors_of_descent():
        arrays, static = eqx.partition(codec_for((8, 8, 1), (0.0, 1.0), code=8, channels=2, key=key), eqx.is_array)

        def step(carried, _):
            arrays, moments = carried
            value, gradient = jax.value_and_grad(lambda arrays: error(eqx.combine(arrays, static)))(arrays)
            changes, moments = optimizer.update(gradient, moments)
            return (optax.apply_updates(arrays, changes), moments), (value, gradient)

        return jax.lax.scan(step, (arrays, optimizer.init(arrays)), length=100)[1]

    values, gradients = errors_of_descent()
    for part in (gradients.encoder.blocks, gradients.encoder.dense.weight, gradients.dense, gradients.out):
        assert all(np.any(leaf) for leaf in jax.tree.leaves(part))
    of_the_mean = np.sum((pictures - np.mean(pictures, axis=0)) ** 2)
    assert values[-1] < 0.8 * of_the_mean < values[0]


@pytest.mark.parametrize("domain", [(-1.0, 1.0), (0.0, 1.0)])
def test_strings_are_their_own_code(domain, key):
    codec = codec_for((6,), domain, key=key)
    signs = strings(6)
    pattern = jnp.where(signs > 0, domain[1], domain[0])
    assert codec.code == 6
    assert not jax.tree.leaves(codec), "there is nothing to learn"
    np.testing.assert_allclose(codec.encode(pattern), signs)
    np.testing.assert_allclose(codec.decode(40 * codec.encode(pattern)), pattern, atol=1e-6)


def test_strings_can_have_a_code_of_another_width(key):
    codec = codec_for((6,), (-1.0, 1.0), code=10, hidden=7, key=key)
    code = codec.encode(strings(6))
    assert code.shape == (codec.code,) == (10,)
    np.testing.assert_allclose([code.mean(), code.var()], [0, 1], atol=1e-3)
    decoded = codec.decode(code)
    assert decoded.shape == (6,)
    assert np.abs(decoded).max() < 1


def test_without_a_domain_values_are_logits(key):
    codec = codec_for((3,), None, key=key)
    values = jnp.array([-4.0, 0.0, 9.0])
    np.testing.assert_array_equal(codec.decode(codec.encode(values)), values)


@pytest.mark.parametrize("domain", [(-1.0, 1.0), (0.0, 1.0)])
def test_cross_entropy_is_the_negative_log_likelihood(domain, rng):
    logits, bits = rng.normal(size=5).astype(np.float32), np.array([0, 1, 1, 0, 1])
    probability = np.where(bits == 1, sigmoid(logits), 1 - sigmoid(logits))
    values = jnp.where(bits == 1, domain[1], domain[0])
    np.testing.assert_allclose(cross_entropy(jnp.asarray(logits), values, domain), -np.log(probability), rtol=1e-5)


def test_values_and_signs_are_inverse_to_logits():
    logits = jnp.linspace(-2, 2, 5)
    np.testing.assert_allclose(to_signs(from_logits(logits, (2.0, 6.0)), (2.0, 6.0)), np.tanh(logits / 2), atol=1e-6)


def test_damage_is_hidden_and_the_rest_is_clamped():
    query, known = jnp.array([0.2, 0.9, 0.4]), jnp.array([True, False, True])
    np.testing.assert_allclose(hide_damage(query, known, (0.0, 1.0)), [0.2, 0.5, 0.4])
    np.testing.assert_allclose(hide_damage(query, None, (0.0, 1.0)), query)
    np.testing.assert_allclose(clamp(jnp.ones(3), query, known), [0.2, 1.0, 0.4])
    np.testing.assert_allclose(clamp(jnp.ones((2, 3)), query, known), [[0.2, 1.0, 0.4]] * 2)
    np.testing.assert_allclose(clamp(jnp.ones(3), query, None), 1)


@pytest.mark.parametrize("wrong", [{"pattern_shape": (4, 4)}, {"pattern_shape": (0,)}, {"code": 0}, {"channels": 0}])
def test_what_makes_no_sense_is_refused(wrong, key):
    with pytest.raises(ValueError, match="expected"):
        codec_for(**({"pattern_shape": (8, 8, 1), "domain": (0.0, 1.0)} | wrong), key=key)
