"""Deep Image Prior: a new network is fitted to each damaged image, and its structure alone says what is likely."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from ..layers import Convolution
from .codec import clamp, from_logits

Image = Float[Array, "_ _ _"]
"""[height, width, channels]."""


class Layer(eqx.Module):
    """A convolution, each channel scaled to zero mean and unit variance over the image, and a leaky rectifier.

    The scaling is the authors' batch normalisation, for a batch of one image.
    """

    convolution: Convolution
    scale: Float[Array, " channels"]
    offset: Float[Array, " channels"]

    def __init__(self, inputs: int, channels: int, size: int, *, stride: int = 1, key: PRNGKeyArray):
        self.convolution = Convolution(inputs, channels, size, stride=stride, key=key)
        self.scale, self.offset = jnp.ones(channels), jnp.zeros(channels)

    def __call__(self, image: Image) -> Image:
        image = self.convolution(image)
        centred = image - jnp.mean(image, axis=(0, 1))
        scaled = centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=(0, 1)) + 1e-5)
        return jax.nn.leaky_relu(scaled * self.scale + self.offset, 0.2)


class Scale(eqx.Module):
    """One halving of the hourglass: down, whatever is inside, up again, with a narrow path around it all."""

    around: Layer
    down: tuple[Layer, Layer]
    inside: "Scale | None"
    up: tuple[Layer, Layer]

    def __init__(self, inputs: int, channels: int, skip_channels: int, scales: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 6)
        self.around = Layer(inputs, skip_channels, 1, key=keys[0])
        self.down = (Layer(inputs, channels, 3, stride=2, key=keys[1]), Layer(channels, channels, 3, key=keys[2]))
        self.inside = None if scales == 1 else Scale(channels, channels, skip_channels, scales - 1, key=keys[3])
        self.up = (Layer(channels + skip_channels, channels, 3, key=keys[4]), Layer(channels, channels, 1, key=keys[5]))

    def __call__(self, image: Image) -> Image:
        height, width, _ = image.shape
        small = self.down[1](self.down[0](image))
        small = small if self.inside is None else self.inside(small)
        large = jnp.repeat(jnp.repeat(small, 2, axis=0), 2, axis=1)[:height, :width]
        return self.up[1](self.up[0](jnp.concatenate([self.around(image), large], axis=-1)))


class Hourglass(eqx.Module):
    """From a fixed image of noise to the logits of an image."""

    body: Scale
    out: Convolution

    def __init__(self, inputs: int, outputs: int, *, channels: int, skip_channels: int, scales: int, key: PRNGKeyArray):
        body_key, out_key = jax.random.split(key)
        self.body = Scale(inputs, channels, skip_channels, scales, key=body_key)
        self.out = Convolution(channels, outputs, 1, key=out_key)

    def __call__(self, image: Image) -> Image:
        return self.out(self.body(image))


class DeepImagePrior(AbstractMemoryModel):
    """Ulyanov and others (2018). Nothing is stored and nothing is learned beforehand: a read draws an hourglass network
    from its key and fits it to the query by Adam, `updates` times.

    Where the known pixels are given, only they are fitted, and the network fills in the rest. Without them the
    network is fitted to the damage too, and the number of updates is all that keeps it from reproducing that.
    The trajectory holds `snapshots` of the fit at equal distances. No energy is defined: each read has a network of
    its own.
    """

    pattern_shape: tuple[int, ...] = eqx.field(static=True, converter=tuple)
    updates: int = eqx.field(static=True, default=2000)
    snapshots: int = eqx.field(static=True, default=5)
    learning_rate: float = eqx.field(static=True, default=0.01)
    jitter: float = eqx.field(static=True, default=0.03)
    """The standard deviation of what is added to the network's input, anew at each update."""
    channels: int = eqx.field(static=True, default=128)
    skip_channels: int = eqx.field(static=True, default=4)
    input_channels: int = eqx.field(static=True, default=32)
    scales: int = eqx.field(static=True, default=4)
    domain: Domain = eqx.field(static=True, default=(0.0, 1.0), converter=as_domain)

    def __check_init__(self):
        counts = (self.updates, self.snapshots, self.channels, self.skip_channels, self.input_channels, self.scales)
        if len(self.pattern_shape) != 3 or min(*self.pattern_shape, *counts) < 1:
            raise ValueError(
                f"got patterns of shape {self.pattern_shape}, {self.updates} updates, {self.snapshots} snapshots, "
                f"{self.channels}, {self.skip_channels} and {self.input_channels} channels and {self.scales} scales; "
                "expected (height, width, channels) and at least 1 everywhere."
            )
        if min(self.pattern_shape[:2]) <= 2**self.scales:
            raise ValueError(
                f"scales: got {self.scales} for images of {self.pattern_shape}; each halves them, and a single "
                f"pixel would be left: use at most {max(min(self.pattern_shape[:2]) - 1, 1).bit_length() - 1}."
            )
        if self.updates % self.snapshots:
            raise ValueError(
                f"got {self.updates} updates and {self.snapshots} snapshots; expected a multiple, so that they are at "
                "equal distances."
            )
        if not 0 < self.learning_rate < math.inf or not 0 <= self.jitter < math.inf:
            raise ValueError(
                f"got learning rate {self.learning_rate} and jitter {self.jitter}; expected a positive rate, and a "
                "jitter of 0 or more."
            )

    @property
    def memory_size(self) -> int:
        return 0

    @property
    def initial_state(self) -> tuple[()]:
        return ()

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> tuple[()]:
        return ()

    def read(
        self,
        state: tuple[()],
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        key = jax.random.key(0) if key is None else key
        fitted = jnp.ones(queries.shape, bool) if known is None else known
        trajectory = jax.vmap(self._fit, out_axes=1)(queries, fitted, jax.random.split(key, len(queries)))
        trajectory = clamp(trajectory, queries, known)
        return Readout(trajectory[-1], trajectory, None)

    def energies(self, state: tuple[()], patterns: Float[Array, "n *pattern"]) -> None:
        return None

    def _fit(self, query: Image, fitted: Bool[Array, "h w c"], key: PRNGKeyArray) -> Float[Array, "snapshots h w c"]:
        network_key, input_key, jitter_key = jax.random.split(key, 3)
        height, width, outputs = self.pattern_shape
        network = Hourglass(
            self.input_channels,
            outputs,
            channels=self.channels,
            skip_channels=self.skip_channels,
            scales=self.scales,
            key=network_key,
        )
        weights, static = eqx.partition(network, eqx.is_array)
        source = jax.random.uniform(input_key, (height, width, self.input_channels), maxval=0.1)
        adam = optax.adam(self.learning_rate)
        start = self._logit_of_mean(query, fitted)

        def image(weights: PyTree, source: Image) -> Image:
            return from_logits(start + eqx.combine(weights, static)(source), self.domain)

        def error(weights: PyTree, source: Image) -> Array:
            squares = jnp.where(fitted, image(weights, source) - query, 0) ** 2
            return jnp.sum(squares) / jnp.maximum(jnp.sum(fitted), 1)

        def update(carry: tuple[PyTree, PyTree], index: Array) -> tuple[tuple[PyTree, PyTree], None]:
            weights, moments = carry
            noise = jax.random.normal(jax.random.fold_in(jitter_key, index), source.shape)
            changes, moments = adam.update(jax.grad(error)(weights, source + self.jitter * noise), moments)
            return (eqx.apply_updates(weights, changes), moments), None

        def up_to_snapshot(carry: tuple[PyTree, PyTree], indices: Array) -> tuple[tuple[PyTree, PyTree], Image]:
            carry, _ = jax.lax.scan(update, carry, indices)
            return carry, image(carry[0], source)

        indices = jnp.arange(self.updates).reshape(self.snapshots, -1)
        return jax.lax.scan(up_to_snapshot, (weights, adam.init(weights)), indices)[1]

    def _logit_of_mean(self, query: Image, fitted: Bool[Array, "h w c"]) -> Array:
        """Where the fit starts: at the mean of what is fitted, as it does by itself on photographs, which are grey on
        average. The channels have zero mean over the image; from a wrong start, what makes the known paper white makes
        the unknown black.
        """
        mean = jnp.sum(jnp.where(fitted, query, 0)) / jnp.maximum(jnp.sum(fitted), 1)
        if self.domain is None:
            return mean
        low, high = self.domain
        return jax.scipy.special.logit(jnp.clip((mean - low) / (high - low), 0.01, 0.99))
