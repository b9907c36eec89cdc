"""The energy of a drawing is how far it is from what the memory makes of it: not the paper's; it learns on a CPU."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import Convolution, he_linear, keeping_size, pixel_shuffle, shrunk
from .string_reconstruction import recall


class ImageReconstruction(eqx.Module):
    """An auto-encoder with the memory in its middle, (seen + 1) · memory_width floats:

        E(x) = Σ ½ m(x) (x − x̂(x))² + p(x),        x̂(x) = decoder(memory(encoder(x)))

    A step down the writing loss teaches the memory to redraw what is stored, and a step down the energy pulls a damaged
    drawing towards what the memory redraws of it. The weights m, which can tell damage from drawing, and the prior p
    see a drawing in small windows, and are static. The energy has its minimum near a stored drawing without being told
    so: the gradient term of the writing loss can be left out (`gradient_term=False`), which makes write steps cheaper.

    The memory sees the features in several views, each through a static matrix. Features of a blank place are taken
    off behind tanh, as in `MixedImageRNN`.
    """

    memory: eqx.nn.Linear
    first: Convolution
    second: Convolution
    inward: eqx.nn.Linear
    outward: eqx.nn.Linear
    redraw: eqx.nn.Linear
    around: Convolution
    """Of the second layer's features: windows of 17×17 pixels, for weights and prior."""
    weights_near: Convolution
    weights_around: Convolution
    prior_near: Float[Array, " channels"]
    prior_around: Float[Array, " channels"]
    image_shape: tuple[int, int, int] = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    seen: int = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    views: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        image_shape: tuple[int, int, int] = (32, 32, 1),
        channels: int = 16,
        seen: int = 143,
        memory_width: int = 64,
        hidden: int = 512,
        views: int = 2,
        key: PRNGKeyArray,
    ):
        height, width, colours = image_shape
        if height % 4 or width % 4:
            raise ValueError(f"got images of {height}×{width}; expected sides that can be divided by 4.")
        keys = jax.random.split(key, 12)
        features = math.prod(shrunk(image_shape, 2)) * channels
        self.memory = he_linear(seen, memory_width, key=keys[0])
        self.first = Convolution(colours, channels, 5, stride=2, key=keys[1])
        self.second = Convolution(channels, channels, 3, stride=2, key=keys[2])
        self.inward = keeping_size(features, views * seen, key=keys[3])
        self.outward = keeping_size(views * memory_width, hidden, bias=0.1, key=keys[4])
        self.redraw = he_linear(hidden, height * width * colours, key=keys[5])
        self.around = Convolution(channels, channels, 3, key=keys[6])
        self.weights_near = Convolution(channels, 4, 1, key=keys[7])
        self.weights_around = Convolution(channels, 16, 1, key=keys[8])
        self.prior_near = 0.1 * jax.random.normal(keys[9], (channels,))
        self.prior_around = 0.1 * jax.random.normal(keys[10], (channels,))
        self.image_shape, self.channels, self.seen, self.memory_width = image_shape, channels, seen, memory_width
        self.hidden, self.views = hidden, views

    @property
    def writable(self) -> tuple[eqx.nn.Linear]:
        return (self.memory,)

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, ""]:
        near = jnp.tanh(self.first(image)) - jnp.tanh(self.first.bias)
        far = jnp.tanh(self.second(near)) - jnp.tanh(self.second.bias)
        around = jnp.tanh(self.around(far))

        recalled = recall(self.memory, self.inward, self.outward, jnp.ravel(far))
        redrawn = 0.1 + 0.3 * self.redraw(recalled).reshape(
            image.shape
        )  # as much ink, and spread, as there is at first

        looks_damaged = pixel_shuffle(self.weights_near(near), 2) + pixel_shuffle(self.weights_around(around), 4)
        weights = 2 * jax.nn.sigmoid(looks_damaged)
        prior = jnp.sum(near @ self.prior_near) + jnp.sum(around @ self.prior_around)
        return jnp.sum(0.5 * weights * (image - redrawn) ** 2) + prior
