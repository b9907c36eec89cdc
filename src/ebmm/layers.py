"""The building blocks of the paper's networks: convolution, layer norm, residual blocks.

Everything is written for one example, images as [height, width, channels]; `jax.vmap` adds the batch.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from . import convolution
from .convolution import windows

_he_normal = jax.nn.initializers.he_normal


def he_linear(inputs: int, outputs: int, *, key: PRNGKeyArray) -> eqx.nn.Linear:
    """A fully connected layer with He's initial weights and zero biases."""
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    weight = _he_normal(in_axis=1, out_axis=0)(key, (outputs, inputs))
    return eqx.tree_at(lambda linear: (linear.weight, linear.bias), layer, (weight, jnp.zeros(outputs)))


def keeping_size(inputs: int, outputs: int, *, bias: float | None = None, key: PRNGKeyArray) -> eqx.nn.Linear:
    """A fully connected layer whose outputs vary as its inputs do, with random biases of this size, or none."""
    weight_key, bias_key = jax.random.split(key)
    layer = eqx.nn.Linear(inputs, outputs, use_bias=bias is not None, key=key)
    weight = jax.random.normal(weight_key, (outputs, inputs)) / inputs**0.5
    layer = eqx.tree_at(lambda linear: linear.weight, layer, weight)
    if bias is None:
        return layer
    return eqx.tree_at(lambda linear: linear.bias, layer, bias * jax.random.normal(bias_key, (outputs,)))


LOWERINGS = {
    "patches": convolution.convolve,
    "mixed": partial(convolution.convolve, shared="xla"),
    "xla": convolution.convolve_xla,
}
FASTEST = {"cpu": "patches", "gpu": "mixed"}
"""By platform, as measured inside the read and write loops (`docs/speed.md`); elsewhere XLA's own."""


def convolve(
    image: Float[Array, "h w inputs"], kernel: Float[Array, "size size inputs outputs"], stride: int = 1
) -> Float[Array, "h2 w2 outputs"]:
    return LOWERINGS[FASTEST.get(jax.default_backend(), "xla")](image, kernel, stride)


def shrunk(image_shape: tuple[int, ...], halvings: int) -> tuple[int, int]:
    """Height and width after so many layers of stride 2."""
    height, width = (-(-length // 2**halvings) for length in image_shape[:2])
    return height, width


def average_pool(image: Float[Array, "h w c"], size: int, stride: int) -> Float[Array, "h2 w2 c"]:
    """The mean of each window, over those of its pixels that lie inside the image."""
    counts = reduce(jnp.add, windows(jnp.ones_like(image[..., :1]), size, stride))
    return reduce(jnp.add, windows(image, size, stride)) / counts


def pixel_shuffle(features: Float[Array, "h w outputs"], times: int) -> Float[Array, "h2 w2 channels"]:
    """An image so many times as high and wide: each place has brought the channels of its times × times pixels."""
    height, width, outputs = features.shape
    parts = features.reshape(height, width, times, times, outputs // times**2)
    return parts.transpose(0, 2, 1, 3, 4).reshape(times * height, times * width, -1)


class Convolution(eqx.Module):
    """A square convolution with bias."""

    kernel: Float[Array, "size size inputs outputs"]
    bias: Float[Array, " outputs"]
    stride: int = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, size: int, *, stride: int = 1, key: PRNGKeyArray):
        self.kernel = _he_normal(in_axis=(0, 1, 2))(key, (size, size, inputs, outputs))
        self.bias = jnp.zeros(outputs)
        self.stride = stride

    def __call__(self, image: Float[Array, "h w inputs"]) -> Float[Array, "h2 w2 outputs"]:
        return convolve(image, self.kernel, self.stride) + self.bias


EPSILON = 1e-5  # of the variance, so that a constant example stays finite


@jax.custom_jvp
def standardised(x: Float[Array, "*axes"]) -> tuple[Float[Array, "*axes"], Float[Array, ""]]:
    """x with zero mean and unit variance over all axes, and the factor that its distance from the mean was scaled by.

    Its derivative needs two means, and neither needs the other. Told so, XLA can take both in one pass over the
    example; derived from mean and variance, one waits for the other.
    """
    centred = x - jnp.mean(x)
    factor = jax.lax.rsqrt(jnp.mean(centred**2) + EPSILON)
    return centred * factor, factor


@standardised.defjvp
def _standardised_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (dx,) = tangents
    y, factor = standardised(*primals)
    along = jnp.mean(y * dx)
    return (y, factor), (factor * (dx - jnp.mean(dx) - y * along), -(factor**2) * along)


class LayerNorm(eqx.Module):
    """Zero mean and unit variance over all axes of one example, then a scale and an offset for each channel."""

    scale: Float[Array, " channels"]
    offset: Float[Array, " channels"]

    def __init__(self, channels: int):
        self.scale = jnp.ones(channels)
        self.offset = jnp.zeros(channels)

    def __call__(self, x: Float[Array, "*axes channels"]) -> Float[Array, "*axes channels"]:
        # Squares are beyond what half precision can hold long before the numbers are.
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return standardised(wide)[0].astype(x.dtype) * self.scale + self.offset


class MemoryConvolution(eqx.Module):
    """A 3×3 convolution whose last output channels are memory and whose others are static."""

    static: Convolution
    memory: Convolution

    def __init__(self, inputs: int, outputs: int, memory_width: int, *, stride: int = 1, key: PRNGKeyArray):
        static_key, memory_key = jax.random.split(key)
        self.static = Convolution(inputs, outputs - memory_width, 3, stride=stride, key=static_key)
        self.memory = Convolution(inputs, memory_width, 3, stride=stride, key=memory_key)

    def __call__(self, image: Float[Array, "h w inputs"]) -> Float[Array, "h2 w2 outputs"]:
        return jnp.concatenate([self.static(image), self.memory(image)], axis=-1)


class MixedConvolution(eqx.Module):
    """A static 3×3 convolution of all output channels, to which a smaller one that is memory is added.

    The memory sees the image in several views, each through a static matrix over channels; others take what it says of
    each to all output channels.
    """

    static: Convolution
    memory: Convolution
    inward: Float[Array, "views inputs inputs"]
    outward: Float[Array, "views memory_width outputs"]

    def __init__(self, inputs: int, outputs: int, memory_width: int, *, views: int, stride: int = 1, key: PRNGKeyArray):
        keys = jax.random.split(key, 4)
        self.static = Convolution(inputs, outputs, 3, stride=stride, key=keys[0])
        self.memory = Convolution(inputs, memory_width, 3, stride=stride, key=keys[1])
        self.inward = jax.random.normal(keys[2], (views, inputs, inputs)) / inputs**0.5
        # Half as much as a memory alone would give: beside it stands what the static convolution makes of the image.
        outward = jax.random.normal(keys[3], (views, memory_width, outputs))
        self.outward = 0.5 * outward / (views * memory_width) ** 0.5

    def __call__(self, image: Float[Array, "h w inputs"]) -> Float[Array, "h2 w2 outputs"]:
        seen = jax.vmap(self.memory)(jnp.einsum("hwi,vij->vhwj", image, self.inward))
        return self.static(image) + jnp.einsum("vhwm,vmo->hwo", seen, self.outward)


Layer = TypeVar("Layer", Convolution, MemoryConvolution, MixedConvolution, LayerNorm)
Module = TypeVar("Module", bound=eqx.Module)


def spread(layer: Layer, shape: tuple[int, int]) -> Layer:
    """The same layer with its numbers for each channel repeated for every pixel; what is written stays as it is.

    For training on a GPU. The gradient of a number for each channel is a sum over all images and pixels, of which XLA
    makes one slow kernel at every use; that of a number for each pixel is a sum over images alone, and the sum over
    pixels is left for the end.
    """

    def repeated(values: Array) -> Array:
        return jnp.broadcast_to(values, (*shape, values.size))

    if isinstance(layer, MemoryConvolution | MixedConvolution):
        return eqx.tree_at(lambda both: both.static, layer, spread(layer.static, shape))
    if isinstance(layer, LayerNorm):
        return eqx.tree_at(lambda norm: (norm.scale, norm.offset), layer, replace_fn=repeated)
    return eqx.tree_at(lambda convolution: convolution.bias, layer, replace_fn=repeated)


def spread_all(module: Module, where: Callable[[Module], tuple[Any, ...]], shape: tuple[int, int]) -> Module:
    """The same module with these of its layers spread."""
    return eqx.tree_at(where, module, tuple(spread(layer, shape) for layer in where(module)))


class ResBlock(eqx.Module):
    """The residual block that halves height and width; with a memory width, parts of its convolutions are memory.

    The paper defines only its low-level `resblock`; its `ResBlock` is read as the same without memory. The
    second convolution has stride 1, since its output is added to its own input.
    """

    first: Convolution | MemoryConvolution
    first_norm: LayerNorm
    second: Convolution | MemoryConvolution
    second_norm: LayerNorm
    skip: Convolution

    def __init__(self, inputs: int, channels: int, memory_width: int = 0, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        make = partial(MemoryConvolution, memory_width=memory_width) if memory_width else partial(Convolution, size=3)
        self.first = make(inputs, channels, stride=2, key=keys[0])
        self.first_norm = LayerNorm(channels)
        self.second = make(channels, channels, key=keys[1])
        self.second_norm = LayerNorm(channels)
        self.skip = Convolution(inputs, channels, 1, key=keys[2])

    def spread(self, shape: tuple[int, int]) -> "ResBlock":
        """For images of this height and width."""
        return spread_all(self, lambda b: (b.first, b.first_norm, b.second, b.second_norm, b.skip), shrunk(shape, 1))

    def __call__(self, image: Float[Array, "h w inputs"]) -> Float[Array, "h2 w2 channels"]:
        x = jnp.tanh(self.first_norm(self.first(image)))
        y = jnp.tanh(self.second_norm(self.second(x) + x))
        return x + y + self.skip(average_pool(image, 3, 2))  # pooled first: the two commute, and this is cheaper


class Bottleneck(eqx.Module):
    """The residual block whose 3×3 convolution is partly memory."""

    narrow: Convolution
    narrow_norm: LayerNorm
    wide: MemoryConvolution | MixedConvolution
    wide_norm: LayerNorm
    skip: Convolution

    def __init__(
        self, inputs: int, channels: int, narrow: int, memory_width: int, *, downscale: bool, key: PRNGKeyArray
    ):
        keys = jax.random.split(key, 3)
        self.narrow = Convolution(inputs, narrow, 1, key=keys[0])
        self.narrow_norm = LayerNorm(narrow)
        self.wide = MemoryConvolution(narrow, channels, memory_width, stride=2 if downscale else 1, key=keys[1])
        self.wide_norm = LayerNorm(channels)
        self.skip = Convolution(inputs, channels, 1, key=keys[2])

    @property
    def memory(self) -> Convolution:
        return self.wide.memory

    def spread(self, shape: tuple[int, int]) -> "Bottleneck":
        """For images of this height and width."""
        half = shape if self.memory.stride == 1 else shrunk(shape, 1)
        part = spread_all(self, lambda b: (b.narrow, b.narrow_norm), shape)
        return spread_all(part, lambda b: (b.wide, b.wide_norm, b.skip), half)

    def __call__(self, image: Float[Array, "h w inputs"]) -> Float[Array, "h2 w2 channels"]:
        x = jnp.tanh(self.narrow_norm(self.narrow(image)))
        x = jnp.tanh(self.wide_norm(self.wide(x)))
        return x + self.skip(image if self.memory.stride == 1 else average_pool(image, 3, 2))


class RecurrentHead(eqx.Module):
    """From features to one number: a gated convolutional recurrence over the same features, then two dense layers."""

    candidate: Convolution
    candidate_norm: LayerNorm
    gate: Convolution
    gate_norm: LayerNorm
    dense: eqx.nn.Linear
    out: eqx.nn.Linear
    hops: int = eqx.field(static=True)

    def __init__(self, features: tuple[int, int, int], *, hidden: int, dense: int, hops: int = 3, key: PRNGKeyArray):
        keys = jax.random.split(key, 4)
        height, width, inputs = features
        self.candidate = Convolution(inputs + hidden, hidden, 3, key=keys[0])
        self.candidate_norm = LayerNorm(hidden)
        self.gate = Convolution(inputs + hidden, hidden, 1, key=keys[1])
        self.gate_norm = LayerNorm(hidden)
        self.dense = he_linear(height * width * hidden, dense, key=keys[2])
        self.out = he_linear(dense, 1, key=keys[3])
        self.hops = hops

    def spread(self, shape: tuple[int, int]) -> "RecurrentHead":
        """For features of this height and width."""
        return spread_all(self, lambda h: (h.candidate, h.candidate_norm, h.gate, h.gate_norm), shape)

    def __call__(self, features: Float[Array, "h w inputs"]) -> Float[Array, ""]:
        # A convolution of [features, state] is the sum of one of each. That of the features is the same at
        # every hop, and the first state is zero.
        inputs = features.shape[-1]
        layers = (self.candidate, self.gate)
        from_features = [convolve(features, layer.kernel[:, :, :inputs]) + layer.bias for layer in layers]
        state = jnp.zeros_like(features, shape=(*features.shape[:2], self.candidate.kernel.shape[-1]))
        for hop in range(self.hops):
            from_state = [convolve(state, layer.kernel[:, :, inputs:]) if hop else 0 for layer in layers]
            candidate, gate = (sum(parts) for parts in zip(from_features, from_state, strict=True))
            candidate = jnp.tanh(self.candidate_norm(candidate))
            gate = jax.nn.sigmoid(self.gate_norm(gate))
            state = gate * candidate + (1 - gate) * state
        return self.out(jnp.tanh(self.dense(jnp.ravel(state))))[0]
