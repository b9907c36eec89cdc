"""Random bits: strings, the classical test of an associative memory, and images like no other."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..interface import Domain
from .distortions import ResampledBits
from .episodes import Episode, Episodes
from .images import AbstractPatterns


class RandomBits(AbstractPatterns):
    """Patterns of independent fair bits, each the lowest or the highest value of the domain."""

    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def __check_init__(self):
        if self.domain is None or not self.pattern_shape or min(self.pattern_shape) < 1:
            raise ValueError(
                f"got shape {self.pattern_shape} and domain {self.domain}; expected positive lengths and an interval."
            )

    def draw(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "count *pattern"]:
        assert self.domain is not None
        low, high = jnp.array(self.domain, float)
        return jnp.where(jax.random.bernoulli(key, 0.5, (count, *self.pattern_shape)), high, low)


def strings(bits: int) -> RandomBits:
    """Strings of ±1."""
    return RandomBits(pattern_shape=(bits,), domain=(-1.0, 1.0))


def string_episode(key: PRNGKeyArray, *, patterns: int, bits: int) -> Episode:
    """Strings of ±1, in each of which half of the bits, at random places, are drawn anew: a quarter is wrong."""
    return Episodes(strings(bits), ResampledBits(0.5), patterns, reveal=True)(key)
