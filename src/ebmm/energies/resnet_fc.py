"""The ResNet with fully connected memory, for Omniglot."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import LayerNorm, ResBlock, he_linear, shrunk


class Encoder(eqx.Module):
    """Three residual blocks and a dense layer: the code that the memory and all baselines share."""

    blocks: tuple[ResBlock, ...]
    dense: eqx.nn.Linear
    norm: LayerNorm

    def __init__(self, image_shape: tuple[int, int, int], *, channels: int, code: int, key: PRNGKeyArray):
        keys = jax.random.split(key, 4)
        widths = (image_shape[2], channels, 2 * channels, 3 * channels)
        self.blocks = tuple(ResBlock(*widths[i : i + 2], key=keys[i]) for i in range(3))
        self.dense = he_linear(math.prod(shrunk(image_shape, 3)) * widths[-1], code, key=keys[3])
        self.norm = LayerNorm(code)

    def spread(self, shape: tuple[int, int]) -> "Encoder":
        """For images of this height and width."""
        blocks = tuple(block.spread(shrunk(shape, halvings)) for halvings, block in enumerate(self.blocks))
        return eqx.tree_at(lambda e: e.blocks, self, blocks)

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, " code"]:
        for block in self.blocks:
            image = block(image)
        return self.norm(self.dense(jnp.ravel(image)))


class ResNetFC(eqx.Module):
    """Memory in a dense layer behind a convolutional encoder: (code + 1) · memory_width floats."""

    encoder: Encoder
    memory: eqx.nn.Linear
    static: eqx.nn.Linear
    candidate: eqx.nn.Linear
    candidate_norm: LayerNorm
    gate: eqx.nn.Linear
    dense: eqx.nn.Linear
    out: eqx.nn.Linear
    image_shape: tuple[int, int, int] = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    code: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    hops: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        image_shape: tuple[int, int, int] = (32, 32, 1),
        memory_width: int = 32,
        channels: int = 32,
        code: int = 256,
        hidden: int = 512,
        hops: int = 3,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 7)
        self.encoder = Encoder(image_shape, channels=channels, code=code, key=keys[0])
        self.memory = he_linear(code, memory_width, key=keys[1])
        self.static = he_linear(code, hidden - memory_width, key=keys[2])
        self.candidate = he_linear(2 * hidden, hidden, key=keys[3])
        self.candidate_norm = LayerNorm(hidden)
        self.gate = he_linear(2 * hidden, hidden, key=keys[4])
        self.dense = he_linear(hidden, 2 * hidden, key=keys[5])
        self.out = he_linear(2 * hidden, 1, key=keys[6])
        self.image_shape, self.memory_width, self.channels = image_shape, memory_width, channels
        self.code, self.hidden, self.hops = code, hidden, hops

    @property
    def writable(self) -> tuple[eqx.nn.Linear]:
        return (self.memory,)

    def spread(self) -> "ResNetFC":
        """The same energy in a form that is trained faster; see `layers.spread`."""
        return eqx.tree_at(lambda e: e.encoder, self, self.encoder.spread(self.image_shape[:2]))

    def __call__(self, image: Float[Array, "h w c"]) -> Float[Array, ""]:
        code = self.encoder(image)
        features = jnp.tanh(jnp.concatenate([self.memory(code), self.static(code)]))
        state = jnp.zeros_like(features)
        for _ in range(self.hops):
            both = jnp.concatenate([features, state])
            candidate = self.candidate_norm(jnp.tanh(self.candidate(both)))
            gate = jax.nn.sigmoid(self.gate(both))
            # The paper prints `u * c + (1 - u) * c`; a gate keeps the rest of the state.
            state = gate * candidate + (1 - gate) * state
        return self.out(jnp.tanh(self.dense(state)))[0]
