"""Random binary strings, the classical test of an associative memory."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from .episodes import Episode


def string_episode(key: PRNGKeyArray, *, patterns: int, bits: int) -> Episode:
    """Strings of ±1, in each of which half of the bits, at random places, are drawn anew: a quarter is wrong."""
    keys = jax.random.split(key, 2)
    stored, noise = jnp.where(jax.random.bernoulli(keys[0], 0.5, (2, patterns, bits)), 1.0, -1.0)
    half = jnp.broadcast_to(jnp.arange(bits) < bits // 2, (patterns, bits))
    known = jax.random.permutation(keys[1], half, axis=1, independent=True)
    return Episode(stored, jnp.where(known, stored, noise), known)
