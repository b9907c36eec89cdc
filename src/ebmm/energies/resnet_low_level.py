"""The ResNet with memory close to the pixels, for batches of similar Omniglot characters."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import Convolution, MemoryConvolution, RecurrentHead, ResBlock, shrunk


class ResNetLowLevel(eqx.Module):
    """Memory in both convolutions of the second block: 866 floats for each of `memory_width` channels.

    The paper prints a width of 8; the memory sizes of its table, "4K" and "5K", are widths 5 and 6.
    """

    block1: ResBlock
    block2: ResBlock
    block3: ResBlock
    head: RecurrentHead
    image_shape: tuple[int, int, int] = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    dense: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        image_shape: tuple[int, int, int] = (32, 32, 1),
        memory_width: int = 5,
        channels: int = 32,
        hidden: int = 256,
        dense: int = 1024,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 4)
        self.block1 = ResBlock(image_shape[2], channels, key=keys[0])
        self.block2 = ResBlock(channels, 2 * channels, memory_width, key=keys[1])
        self.block3 = ResBlock(2 * channels, 4 * channels, key=keys[2])
        features = (*shrunk(image_shape, 3), 4 * channels)
        self.head = RecurrentHead(features, hidden=hidden, dense=dense, key=keys[3])
        self.image_shape, self.memory_width, self.channels = image_shape, memory_width, channels
        self.hidden, self.dense = hidden, dense

    @property
    def writable(self) -> tuple[Convolution, ...]:
        return tuple(
            layer.memory for layer in (self.block2.first, self.block2.second) if isinstance(layer, MemoryConvolution)
        )

    def spread(self) -> "ResNetLowLevel":
        """The same energy in a form that is trained faster; see `layers.spread`."""
        parts = (self.block1, self.block2, self.block3, self.head)
        return eqx.tree_at(
            lambda e: (e.block1, e.block2, e.block3, e.head),
            self,
            tuple(part.spread(shrunk(self.image_shape, n)) for n, part in enumerate(parts)),
        )

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, ""]:
        return self.head(self.block3(self.block2(self.block1(image))))
