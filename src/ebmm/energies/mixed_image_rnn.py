"""A small network for drawings, with its memory between learned matrices: not the paper's, and it learns on a CPU."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import Convolution, shrunk
from .mixed_rnn import MixedRNN


class MixedImageRNN(eqx.Module):
    """Two convolutions, then what `MixedRNN` is for strings: (seen + 1) · memory_width floats.

    Most of a drawing is blank. What a convolution says of a blank place, its bias, is taken off behind tanh, so that a
    blank image has no features: otherwise they would all rise and fall with any step of meta-learning, and hold the
    steps short.
    """

    first: Convolution
    second: Convolution
    rnn: MixedRNN
    image_shape: tuple[int, int, int] = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    seen: int = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    hops: int = eqx.field(static=True)
    views: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        image_shape: tuple[int, int, int] = (32, 32, 1),
        channels: int = 16,
        seen: int = 143,
        memory_width: int = 64,
        hidden: int = 256,
        hops: int = 3,
        views: int = 2,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 3)
        self.first = Convolution(image_shape[2], channels, 5, stride=2, key=keys[0])
        self.second = Convolution(channels, channels, 3, stride=2, key=keys[1])
        features = math.prod(shrunk(image_shape, 2)) * channels
        self.rnn = MixedRNN(
            bits=features, seen=seen, memory_width=memory_width, hidden=hidden, hops=hops, views=views, key=keys[2]
        )
        self.image_shape, self.channels, self.seen, self.memory_width = image_shape, channels, seen, memory_width
        self.hidden, self.hops, self.views = hidden, hops, views

    @property
    def writable(self) -> tuple[eqx.nn.Linear]:
        return self.rnn.writable

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, ""]:
        for layer in (self.first, self.second):
            image = jnp.tanh(layer(image)) - jnp.tanh(layer.bias)
        return self.rnn(jnp.ravel(image))
