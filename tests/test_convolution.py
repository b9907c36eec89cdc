"""The convolution whose derivatives are of its own kind, against NumPy and against JAX's own derivatives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from ebmm.convolution import WORTHWHILE, convolve, windows


def gathered(images, kernel, stride):
    """The same convolution, left to JAX to differentiate."""
    return jnp.concatenate(windows(images, kernel.shape[0], stride), -1) @ kernel.reshape(-1, kernel.shape[-1])


def third_order(convolution, stride):
    """A number whose gradient takes three derivatives of the convolution, as the meta-gradient does."""

    def energy(image, kernel):
        return jnp.sum(jnp.tanh(convolution(image, kernel, stride)))

    def slope(kernel, images):
        return jnp.mean(jax.vmap(lambda image: jnp.sum(jax.grad(energy)(image, kernel) ** 2))(images))

    return lambda images, kernel: jnp.sum(jnp.sin(jax.grad(slope)(kernel, images)))


CASES = [((5, 6), 3, 1), ((5, 6), 3, 2), ((4, 4), 3, 2), ((4, 4), 1, 1), ((7, 4), 4, 3), ((1, 1), 3, 2), ((6, 6), 2, 1)]


KINDS = [("patches", (2, 3)), ("xla", (WORTHWHILE, WORTHWHILE + 1))]


@pytest.mark.parametrize(("shared", "channels"), KINDS)
@pytest.mark.parametrize(("shape", "size", "stride"), CASES)
def test_both_derivatives_are_the_transposes_of_the_convolution(float64, rng, shape, size, stride, shared, channels):
    image = jnp.asarray(rng.normal(size=(*shape, channels[0])))
    kernel = jnp.asarray(rng.normal(size=(size, size, *channels)))
    convolved = partial(convolve, shared=shared)
    if size % 2:
        np.testing.assert_allclose(
            convolved(image, kernel, stride), oracles.convolution(image, kernel, 0.0, stride), atol=1e-12
        )
    output, backward = jax.vjp(lambda i, k: convolved(i, k, stride), image, kernel)
    cotangent = rng.normal(size=output.shape)
    expected = jax.vjp(lambda i, k: gathered(i, k, stride), image, kernel)[1](jnp.asarray(cotangent))
    for found, wanted in zip(backward(jnp.asarray(cotangent)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize(("shape", "size", "stride"), [((4, 5), 3, 1), ((4, 5), 3, 2)])
@pytest.mark.parametrize("own", [True, False], ids=["own kernels", "one kernel"])
@pytest.mark.parametrize(("shared", "channels"), KINDS)
def test_derivatives_of_third_order_with_an_axis_of_episodes(float64, rng, shape, size, stride, own, shared, channels):
    images = jnp.asarray(rng.normal(size=(2, 3, *shape, channels[0])))
    kernels = jnp.asarray(rng.normal(size=((2,) if own else ()) + (size, size, *channels))) / channels[0]
    axes = (0, 0 if own else None)

    def gradients(convolution):
        def total(i, k):
            return jnp.sum(jax.vmap(third_order(convolution, stride), in_axes=axes)(i, k))

        each = jax.vmap(jax.grad(third_order(convolution, stride), argnums=(0, 1)), in_axes=axes)
        return jax.jit(lambda i, k: (jax.grad(total, argnums=(0, 1))(i, k), each(i, k)))(images, kernels)

    found, wanted = (jax.tree.leaves(gradients(each)) for each in (partial(convolve, shared=shared), gathered))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_forward_derivatives(float64, rng):
    image, kernel = jnp.asarray(rng.normal(size=(4, 4, 2))), jnp.asarray(rng.normal(size=(3, 3, 2, 3)))
    d_image, d_kernel = jnp.asarray(rng.normal(size=image.shape)), jnp.asarray(rng.normal(size=kernel.shape))
    _, found = jax.jvp(convolve, (image, kernel), (d_image, d_kernel))
    np.testing.assert_allclose(found, convolve(d_image, kernel) + convolve(image, d_kernel), atol=1e-12)
