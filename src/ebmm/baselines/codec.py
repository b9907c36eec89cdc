"""From patterns to codes and back: the encoder and decoder that all baselines share.

The paper's encoder serves images, "together with its transposed version as a decoder"; strings are their own code.
Everything is written for one pattern; `jax.vmap` adds the batch.
"""

import abc
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..energies.resnet_fc import Encoder
from ..interface import Domain, as_domain
from ..layers import Convolution, LayerNorm, he_linear, shrunk


def to_signs(values: Float[Array, "*shape"], domain: Domain) -> Float[Array, "*shape"]:
    """The domain stretched to [−1, 1]; the whole line is left as it is."""
    if domain is None:
        return values
    low, high = domain
    return (2 * values - low - high) / (high - low)


def from_logits(logits: Float[Array, "*shape"], domain: Domain) -> Float[Array, "*shape"]:
    """Any numbers squashed into the domain by a sigmoid; on the whole line they are the values."""
    if domain is None:
        return logits
    low, high = domain
    return low + (high - low) * jax.nn.sigmoid(logits)


def cross_entropy(
    logits: Float[Array, "*shape"], values: Float[Array, "*shape"], domain: Domain
) -> Float[Array, "*shape"]:
    """The cost in nats of each value under the Bernoulli distributions with these logits.

    A value of the domain is the probability of its upper end. On the whole line it is half the squared error.
    """
    if domain is None:
        return 0.5 * (values - logits) ** 2
    low, high = domain
    return jax.nn.softplus(logits) - (values - low) / (high - low) * logits


def hide_damage(
    query: Float[Array, "*pattern"], known: Bool[Array, "*pattern"] | None, domain: Domain
) -> Float[Array, "*pattern"]:
    """The query with the middle of the domain wherever it is not vouched for; without a mask it stays."""
    if known is None:
        return query
    return jnp.where(known, query, 0.0 if domain is None else sum(domain) / 2)


def clamp(
    values: Float[Array, "*steps_pattern"], query: Float[Array, "*pattern"], known: Bool[Array, "*pattern"] | None
) -> Float[Array, "*steps_pattern"]:
    """The values, and the query's own wherever it is undamaged; of one iterate or of all."""
    return values if known is None else jnp.where(known, query, values)


class AbstractCodec(eqx.Module):
    """A pattern as a vector of `code` numbers, and the way back."""

    code: eqx.AbstractVar[int]
    domain: eqx.AbstractVar[Domain]

    @abc.abstractmethod
    def encode(self, pattern: Float[Array, "*pattern"]) -> Float[Array, " code"]:
        """The code of a pattern."""

    @abc.abstractmethod
    def decode_logits(self, code: Float[Array, " code"]) -> Float[Array, "*pattern"]:
        """The logits of a code's pattern, for a Bernoulli likelihood."""

    def decode(self, code: Float[Array, " code"]) -> Float[Array, "*pattern"]:
        """The pattern of a code, inside the domain."""
        return from_logits(self.decode_logits(code), self.domain)


class IdentityCodec(AbstractCodec):
    """Strings as they are: their bits as signs are the code, and a code is read as logits. Nothing is learned."""

    code: int = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def encode(self, pattern: Float[Array, " bits"]) -> Float[Array, " bits"]:
        return to_signs(pattern, self.domain)

    def decode_logits(self, code: Float[Array, " bits"]) -> Float[Array, " bits"]:
        return code


class DenseCodec(AbstractCodec):
    """Strings through one hidden layer each way."""

    encoder: tuple[eqx.nn.Linear, eqx.nn.Linear]
    decoder: tuple[eqx.nn.Linear, eqx.nn.Linear]
    norm: LayerNorm
    code: int = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def __init__(self, bits: int, domain: Domain, *, code: int, hidden: int, key: PRNGKeyArray):
        keys = jax.random.split(key, 4)
        self.encoder = (he_linear(bits, hidden, key=keys[0]), he_linear(hidden, code, key=keys[1]))
        self.decoder = (he_linear(code, hidden, key=keys[2]), he_linear(hidden, bits, key=keys[3]))
        self.norm = LayerNorm(code)
        self.code, self.domain = code, domain

    def encode(self, pattern: Float[Array, " bits"]) -> Float[Array, " code"]:
        first, second = self.encoder
        return self.norm(second(jnp.tanh(first(to_signs(pattern, self.domain)))))

    def decode_logits(self, code: Float[Array, " code"]) -> Float[Array, " bits"]:
        first, second = self.decoder
        return second(jnp.tanh(first(code)))


class UpBlock(eqx.Module):
    """The residual block of the encoder turned round: it doubles height and width, up to a given size.

    Pixels are repeated and then convolved, which is a transposed convolution without its chequered artefacts.
    """

    first: Convolution
    first_norm: LayerNorm
    second: Convolution
    second_norm: LayerNorm
    skip: Convolution
    size: tuple[int, int] = eqx.field(static=True)

    def __init__(self, inputs: int, channels: int, *, size: tuple[int, int], key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        self.first = Convolution(inputs, channels, 3, key=keys[0])
        self.first_norm = LayerNorm(channels)
        self.second = Convolution(channels, channels, 3, key=keys[1])
        self.second_norm = LayerNorm(channels)
        self.skip = Convolution(inputs, channels, 1, key=keys[2])
        self.size = size

    def __call__(self, image: Float[Array, "h w inputs"]) -> Float[Array, "h2 w2 channels"]:
        x = jnp.tanh(self.first_norm(self.first(self.enlarge(image))))
        y = jnp.tanh(self.second_norm(self.second(x) + x))
        return x + y + self.enlarge(self.skip(image))  # enlarged last: the two commute, and this is cheaper

    def enlarge(self, image: Float[Array, "h w c"]) -> Float[Array, "h2 w2 c"]:
        height, width = self.size
        return jnp.repeat(jnp.repeat(image, 2, axis=0), 2, axis=1)[:height, :width]


class ImageCodec(AbstractCodec):
    """The paper's encoder of three residual blocks, and its mirror image with one logit for each value."""

    encoder: Encoder
    dense: eqx.nn.Linear
    norm: LayerNorm
    blocks: tuple[UpBlock, ...]
    out: Convolution
    image_shape: tuple[int, int, int] = eqx.field(static=True)
    code: int = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def __init__(
        self, image_shape: tuple[int, int, int], domain: Domain, *, code: int, channels: int, key: PRNGKeyArray
    ):
        keys = jax.random.split(key, 6)
        sizes = [shrunk(image_shape, halvings) for halvings in (3, 2, 1, 0)]
        widths = (3 * channels, 2 * channels, channels, channels)  # the last block keeps its width: `out` narrows it
        self.encoder = Encoder(image_shape, channels=channels, code=code, key=keys[0])
        self.dense = he_linear(code, math.prod(sizes[0]) * widths[0], key=keys[1])
        self.norm = LayerNorm(widths[0])
        self.blocks = tuple(
            UpBlock(*widths[i : i + 2], size=sizes[i + 1], key=keys[2 + i])  # one for each halving, in reverse
            for i in range(3)
        )
        out = Convolution(channels, image_shape[2], 3, key=keys[5])
        # A tenth of He's weights: the first values lie in the middle of the domain, where the sigmoid is not flat.
        self.out = eqx.tree_at(lambda convolution: convolution.kernel, out, 0.1 * out.kernel)
        self.image_shape, self.code, self.domain = image_shape, code, domain

    def encode(self, pattern: Float[Array, "h w c"]) -> Float[Array, " code"]:
        return self.encoder(pattern)

    def decode_logits(self, code: Float[Array, " code"]) -> Float[Array, "h w c"]:
        image = self.norm(self.dense(code).reshape(*shrunk(self.image_shape, 3), -1))
        for block in self.blocks:
            image = block(image)
        return self.out(image)


def codec_for(
    pattern_shape: Sequence[int],
    domain: Domain,
    *,
    code: int = 256,
    channels: int = 32,
    hidden: int | None = None,
    key: PRNGKeyArray,
) -> AbstractCodec:
    """The codec of all baselines for patterns of this shape; its `code` tells the width that it has.

    **Arguments:**

    - `code`: the width for images and, with `hidden`, for strings; a string that is its own code has its length.
    - `channels`: of the first residual block, for images.
    - `hidden`: units of the hidden layers for strings, or None for strings that are their own code.
    """
    shape, domain = tuple(pattern_shape), as_domain(domain)
    if min(code, channels, 1 if hidden is None else hidden) < 1:
        raise ValueError(f"got code {code}, channels {channels} and hidden {hidden}; expected positive numbers.")
    if len(shape) == 1 and shape[0] > 0:
        if hidden is None:
            return IdentityCodec(shape[0], domain)
        return DenseCodec(shape[0], domain, code=code, hidden=hidden, key=key)
    if len(shape) == 3 and min(shape) > 0:
        return ImageCodec((shape[0], shape[1], shape[2]), domain, code=code, channels=channels, key=key)
    raise ValueError(
        f"pattern_shape: got {shape}; expected (bits,) for strings or (height, width, channels) for images. "
        "Add a last axis of length 1 to images without channels."
    )
