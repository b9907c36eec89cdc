"""The ResNet with its convolutional memory between learned matrices: not the paper's."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import Bottleneck, Convolution, MixedConvolution
from .resnet_conv import ResNetConv


class ResNetMixed(eqx.Module):
    """`ResNetConv` but for where its memory is: as many floats, seen in several `views` and told to every channel.

    What `MixedRNN` is for strings, for drawings: see there.
    """

    network: ResNetConv
    image_shape: tuple[int, int, int] = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    views: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    dense: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        image_shape: tuple[int, int, int] = (32, 32, 1),
        memory_width: int = 8,
        views: int = 4,
        channels: int = 32,
        hidden: int = 128,
        dense: int = 1024,
        key: PRNGKeyArray,
    ):
        network_key, *keys = jax.random.split(key, 3)
        network = ResNetConv(
            image_shape=image_shape,
            memory_width=memory_width,
            channels=channels,
            hidden=hidden,
            dense=dense,
            key=network_key,
        )

        def mixed(block: Bottleneck, key: PRNGKeyArray) -> Bottleneck:
            inputs, outputs = block.narrow.kernel.shape[-1], block.skip.kernel.shape[-1]
            wide = MixedConvolution(inputs, outputs, memory_width, views=views, stride=block.memory.stride, key=key)
            return eqx.tree_at(lambda b: b.wide, block, wide)

        blocks = tuple(mixed(*each) for each in zip((network.block3, network.block4), keys, strict=True))
        self.network = eqx.tree_at(lambda n: (n.block3, n.block4), network, blocks)
        self.image_shape, self.memory_width, self.views = image_shape, memory_width, views
        self.channels, self.hidden, self.dense = channels, hidden, dense

    @property
    def writable(self) -> tuple[Convolution, Convolution]:
        return self.network.writable

    def spread(self) -> "ResNetMixed":
        """The same energy in a form that is trained faster; see `layers.spread`."""
        return eqx.tree_at(lambda e: e.network, self, self.network.spread())

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, ""]:
        return self.network(image)
