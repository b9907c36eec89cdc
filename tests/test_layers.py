"""The building blocks against their definitions in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from ebmm import layers
from ebmm.convolution import WORTHWHILE


@pytest.mark.parametrize("lowering", layers.LOWERINGS)
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (1, 1)])
@pytest.mark.parametrize("shape", [(8, 8), (5, 6), (1, 1)])
def test_every_lowering_is_the_same_convolution(float64, rng, lowering, size, stride, shape):
    image = rng.normal(size=(*shape, WORTHWHILE))
    kernel = rng.normal(size=(size, size, WORTHWHILE, WORTHWHILE + 1))
    got = layers.LOWERINGS[lowering](jnp.asarray(image), jnp.asarray(kernel), stride)
    np.testing.assert_allclose(got, oracles.convolution(image, kernel, 0.0, stride), atol=1e-12)


def test_every_platform_names_a_lowering():
    assert set(layers.FASTEST.values()) <= set(layers.LOWERINGS)
    assert {"cpu", "gpu"} <= set(layers.FASTEST)


@pytest.mark.parametrize("shape", [(8, 8, 2), (5, 6, 2), (1, 1, 2)])
def test_the_average_pool_leaves_padding_out(float64, rng, shape):
    image = rng.normal(size=shape)
    np.testing.assert_allclose(layers.average_pool(jnp.asarray(image), 3, 2), oracles.average_pool(image), atol=1e-12)


def test_pooling_and_a_pointwise_convolution_commute(float64, rng):
    """`ResBlock` pools first, which is cheaper; the paper pools last."""
    image = rng.normal(size=(8, 8, 2))
    kernel, bias = rng.normal(size=(1, 1, 2, 3)), rng.normal(size=3)
    last = oracles.average_pool(oracles.convolution(image, kernel, bias))
    first = oracles.convolution(oracles.average_pool(image), kernel, bias)
    np.testing.assert_allclose(first, last, atol=1e-12)


def test_layer_norm_is_over_all_axes_of_one_example(float64, rng):
    x = 3 + 2 * rng.normal(size=(4, 4, 3))
    norm = layers.LayerNorm(3)
    got = norm(jnp.asarray(x))
    np.testing.assert_allclose(got, oracles.layer_norm(x, 1.0, 0.0), atol=1e-12)
    np.testing.assert_allclose([got.mean(), got.var()], [0, 1], atol=1e-5)


def test_the_derivatives_of_standardising_are_those_of_its_definition(float64, rng):
    """The rule is told by hand; here JAX derives it from mean and variance, in four orders as training does."""

    def plain(x):
        centred = x - x.mean()
        factor = (jnp.mean(centred**2) + layers.EPSILON) ** -0.5
        return centred * factor, factor

    def derivative(function, directions):
        """Of a number that depends on all outputs, along each direction in turn."""
        if not directions:
            return lambda x: sum(jnp.sum(jnp.sin(part)) for part in function(x))
        inner = derivative(function, directions[1:])
        return lambda x: jax.jvp(inner, (x,), (directions[0],))[1]

    x, *directions = (jnp.asarray(rng.normal(size=(3, 2, 4))) for _ in range(4))
    for order in range(4):
        told, derived = (derivative(f, directions[:order]) for f in (layers.standardised, plain))
        np.testing.assert_allclose(jax.jit(told)(x), jax.jit(derived)(x), rtol=1e-10)
        gradients = (jax.jit(jax.grad(each))(x) for each in (told, derived))
        np.testing.assert_allclose(*gradients, rtol=1e-8, atol=1e-10)


def test_he_initialisation(float64):
    linear = layers.he_linear(400, 300, key=jax.random.key(0))
    convolution = layers.Convolution(40, 300, 3, key=jax.random.key(0))
    np.testing.assert_allclose(linear.weight.std(), np.sqrt(2 / 400), rtol=0.02)
    np.testing.assert_allclose(convolution.kernel.std(), np.sqrt(2 / 360), rtol=0.02)
    assert not linear.bias.any()
    assert not convolution.bias.any()


def test_a_layer_that_keeps_size_does_so():
    x = jax.random.normal(jax.random.key(1), (200,))
    plain = layers.keeping_size(200, 4000, key=jax.random.key(0))
    assert plain.bias is None
    assert float(jnp.std(plain(x)) / jnp.sqrt(jnp.mean(x**2))) == pytest.approx(1.0, rel=0.05)
    assert float(jnp.std(layers.keeping_size(200, 4000, bias=0.1, key=jax.random.key(0)).bias)) == pytest.approx(
        0.1, rel=0.05
    )
