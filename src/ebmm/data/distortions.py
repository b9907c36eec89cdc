"""Damage: what happens to a pattern between writing it and asking for it.

A distortion maps one pattern and a key to the damaged pattern and the mask of the dimensions that it left
alone; `vmap` adds the batch. Sizes, rates and shares may be arrays, so that one compiled function serves
every strength.
"""

import abc
import math
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

Damaged = tuple[Float[Array, "*pattern"], Bool[Array, "*pattern"]]
Interval = tuple[float, float]
Fill = Literal["bits", "noise", "low", "high"]
UNIT: Interval = (0.0, 1.0)


class AbstractDistortion(eqx.Module):
    """A pure function of a pattern and a key."""

    @abc.abstractmethod
    def __call__(self, pattern: Float[Array, "*pattern"], *, key: PRNGKeyArray, domain: Interval = UNIT) -> Damaged:
        """The damaged pattern, with new values from the domain, and the mask of undamaged dimensions."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """As `distortion` reads it."""


class RandomBlock(AbstractDistortion):
    """A square block at a uniform position, filled with fair random bits, with uniform noise, or with the lowest or the
    highest value: a drawing rubbed out, or blotted.
    """

    size: int | Array
    """An array has to be at most the image's size: only a number can be checked."""
    fill: Fill = eqx.field(static=True, default="bits")

    def __check_init__(self):
        _check("block size", self.size, 1.0, math.inf, whole=True)
        if self.fill not in FILLS:
            raise ValueError(f"fill: got {self.fill!r}; expected {', '.join(FILLS)}.")

    def __call__(self, pattern: Float[Array, "*pattern"], *, key: PRNGKeyArray, domain: Interval = UNIT) -> Damaged:
        if pattern.ndim != 3:
            raise ValueError(
                f"block: got a pattern of shape {pattern.shape}; expected an image [height, width, channels]."
            )
        if isinstance(self.size, int) and self.size > min(pattern.shape[:2]):
            raise ValueError(
                f"block: got size {self.size}; expected at most {min(pattern.shape[:2])}, the image's own."
            )
        place_key, fill_key = jax.random.split(key)
        extent = jnp.array(pattern.shape[:2])
        corner = jax.random.randint(place_key, (2,), 0, extent - self.size + 1)
        rows, columns = jnp.arange(pattern.shape[0]), jnp.arange(pattern.shape[1])
        in_rows = (rows >= corner[0]) & (rows < corner[0] + self.size)
        in_columns = (columns >= corner[1]) & (columns < corner[1] + self.size)
        kept = jnp.broadcast_to(~(in_rows[:, None] & in_columns[None, :])[..., None], pattern.shape)
        return jnp.where(kept, pattern, FILLS[self.fill](fill_key, pattern, domain)), kept

    @property
    def name(self) -> str:
        return f"block:{self.size}" + ("" if self.fill == "bits" else f":{self.fill}")


class SaltAndPepper(AbstractDistortion):
    """Each pixel with probability `rate`, all its channels at once, set to the lowest or the highest value."""

    rate: float | int | Array

    def __check_init__(self):
        _check("salt and pepper rate", self.rate, 0.0, 1.0)

    def __call__(self, pattern: Float[Array, "*pattern"], *, key: PRNGKeyArray, domain: Interval = UNIT) -> Damaged:
        place_key, fill_key = jax.random.split(key)
        pixels = jnp.empty((*pattern.shape[:-1], 1)) if pattern.ndim == 3 else pattern
        kept = ~jax.random.bernoulli(place_key, jnp.asarray(self.rate, float), pixels.shape)
        damaged = jnp.where(kept, pattern, _bits(fill_key, pixels, domain))
        return damaged.astype(pattern.dtype), jnp.broadcast_to(kept, pattern.shape)

    @property
    def name(self) -> str:
        return f"salt-and-pepper:{_shortest(self.rate)}"


class ResampledBits(AbstractDistortion):
    """A share of the dimensions, at random places, each drawn anew from the lowest and the highest value.

    The share is exact and half of the new values are what was there before: half of the bits of a string
    resampled leave a quarter of them wrong.
    """

    share: float | int | Array

    def __check_init__(self):
        _check("share of resampled bits", self.share, 0.0, 1.0)

    def __call__(self, pattern: Float[Array, "*pattern"], *, key: PRNGKeyArray, domain: Interval = UNIT) -> Damaged:
        place_key, fill_key = jax.random.split(key)
        ranks = jax.random.permutation(place_key, pattern.size).reshape(pattern.shape)
        kept = ranks >= jnp.round(self.share * pattern.size)
        return jnp.where(kept, pattern, _bits(fill_key, pattern, domain)), kept

    @property
    def name(self) -> str:
        return f"bits:{_shortest(self.share)}"


class InTurn(AbstractDistortion):
    """Several distortions, one after the other; undamaged is what all of them left alone."""

    distortions: tuple[AbstractDistortion, ...]

    def __call__(self, pattern: Float[Array, "*pattern"], *, key: PRNGKeyArray, domain: Interval = UNIT) -> Damaged:
        kept = jnp.ones(pattern.shape, bool)
        for distortion, each in zip(self.distortions, jax.random.split(key, len(self.distortions)), strict=True):
            pattern, left = distortion(pattern, key=each, domain=domain)
            kept = kept & left
        return pattern, kept

    @property
    def name(self) -> str:
        return "+".join(distortion.name for distortion in self.distortions)


class OneOf(AbstractDistortion):
    """One of several distortions, drawn anew for each pattern."""

    distortions: tuple[AbstractDistortion, ...]

    def __call__(self, pattern: Float[Array, "*pattern"], *, key: PRNGKeyArray, domain: Interval = UNIT) -> Damaged:
        choice_key, *keys = jax.random.split(key, len(self.distortions) + 1)
        choice = jax.random.randint(choice_key, (), 0, len(self.distortions))
        pairs = zip(self.distortions, keys, strict=True)
        each = [distortion(pattern, key=own_key, domain=domain) for distortion, own_key in pairs]
        damaged, kept = (jnp.stack(arrays)[choice] for arrays in zip(*each, strict=True))
        return damaged, kept

    @property
    def name(self) -> str:
        return "/".join(distortion.name for distortion in self.distortions)


EXPECTED = (
    "expected block:SIZE, block:SIZE:noise (or :low, :high), salt-and-pepper:RATE, bits:SHARE, several joined by + "
    "(all of them) or by / (one of them for each pattern)"
)


def distortion(text: str) -> AbstractDistortion:
    """From its name, such as `block:16`, `block:16:noise`, `salt-and-pepper:0.15`, `block:8+salt-and-pepper:0.1` or
    `block:8/block:20`.
    """
    if "/" in text:
        return OneOf(tuple(distortion(part) for part in text.split("/")))
    if "+" in text:
        return InTurn(tuple(distortion(part) for part in text.split("+")))
    match text.split(":"):
        case ["block", size] if size.isdecimal():
            return RandomBlock(int(size))
        case ["block", size, ("bits" | "noise" | "low" | "high") as fill] if size.isdecimal():
            return RandomBlock(int(size), fill)
        case ["salt-and-pepper", rate] if (value := _number(rate)) is not None:
            return SaltAndPepper(value)
        case ["bits", share] if (value := _number(share)) is not None:
            return ResampledBits(value)
    raise ValueError(f"damage {text!r}: {EXPECTED}.")


def _shortest(value: float | int | Array) -> str:
    """The fewest digits that give the same number again."""
    return f"{value:g}" if float(f"{value:g}") == value else str(value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _check(what: str, value: Any, low: float, high: float, *, whole: bool = False) -> None:
    if isinstance(value, Array):  # set inside a compiled function, from values that were checked
        return
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        limits = f"from {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{what}: got {value!r}; expected {kind} {limits}.")


def _bits(key: PRNGKeyArray, like: Array, domain: Interval) -> Array:
    low, high = domain
    return jnp.where(jax.random.bernoulli(key, 0.5, like.shape), high, low).astype(like.dtype)


def _noise(key: PRNGKeyArray, like: Array, domain: Interval) -> Array:
    return jax.random.uniform(key, like.shape, like.dtype, *domain)


FILLS: dict[Fill, Callable[[Array, Array, Interval], Array]] = {
    "bits": _bits,
    "noise": _noise,
    "low": lambda key, like, domain: jnp.full_like(like, domain[0]),
    "high": lambda key, like, domain: jnp.full_like(like, domain[1]),
}
"""What a block is filled with, from a key, the pattern and the domain."""
