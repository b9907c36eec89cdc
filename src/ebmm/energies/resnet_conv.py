"""The ResNet with convolutional memory, for Omniglot and CIFAR-10."""

from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import Bottleneck, Convolution, RecurrentHead, ResBlock, shrunk


class ResNetConv(eqx.Module):
    """Memory in the third and fourth block: 2 · (9 · 2 · channels + 1) floats for each of `memory_width` channels.

    `halvings` is how often height and width are halved: by blocks 1, 2 and 4, or by all four.
    """

    block1: ResBlock
    block2: ResBlock
    block3: Bottleneck
    block4: Bottleneck
    head: RecurrentHead
    image_shape: tuple[int, int, int] = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    dense: int = eqx.field(static=True)
    halvings: Literal[3, 4] = eqx.field(static=True)

    def __init__(
        self,
        *,
        image_shape: tuple[int, int, int] = (32, 32, 1),
        memory_width: int = 8,
        channels: int = 32,
        hidden: int = 128,
        dense: int = 1024,
        halvings: Literal[3, 4] = 3,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 5)
        narrow, wide = 2 * channels, 4 * channels
        self.block1 = ResBlock(image_shape[2], channels, key=keys[0])
        self.block2 = ResBlock(channels, narrow, key=keys[1])
        self.block3 = Bottleneck(narrow, wide, narrow, memory_width, downscale=halvings == 4, key=keys[2])
        self.block4 = Bottleneck(wide, wide, narrow, memory_width, downscale=True, key=keys[3])
        features = (*shrunk(image_shape, halvings), wide)
        self.head = RecurrentHead(features, hidden=hidden, dense=dense, key=keys[4])
        self.image_shape, self.memory_width, self.channels = image_shape, memory_width, channels
        self.hidden, self.dense, self.halvings = hidden, dense, halvings

    @property
    def writable(self) -> tuple[Convolution, Convolution]:
        return (self.block3.memory, self.block4.memory)

    def spread(self) -> "ResNetConv":
        """The same energy in a form that is trained faster; see `layers.spread`."""
        parts = (self.block1, self.block2, self.block3, self.block4, self.head)
        halvings = (0, 1, 2, self.halvings - 1, self.halvings)
        return eqx.tree_at(
            lambda e: (e.block1, e.block2, e.block3, e.block4, e.head),
            self,
            tuple(part.spread(shrunk(self.image_shape, n)) for part, n in zip(parts, halvings, strict=True)),
        )

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, ""]:
        return self.head(self.block4(self.block3(self.block2(self.block1(image)))))
