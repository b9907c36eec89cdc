"""What a memory has to be weighed against: doing nothing, blanking the damage, and storing the patterns exactly."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..interface import Domain


def blanked(queries: Float[Array, "n *pattern"], undamaged: Bool[Array, "n *pattern"]) -> Float[Array, "n *pattern"]:
    """Every damaged dimension replaced by the mean of the undamaged ones, of its own channel in an image.

    It needs to be told where the damage is, and no memory at all. On drawings it is white paper.
    """

    def of_one(query: Array, kept: Array) -> Array:
        axes = tuple(range(max(query.ndim - 1, 1)))
        total = jnp.sum(jnp.where(kept, query, 0), axis=axes, keepdims=True)
        mean = total / jnp.maximum(jnp.sum(kept, axis=axes, keepdims=True), 1)
        return jnp.where(kept, query, mean)

    return jax.vmap(of_one)(queries, undamaged)


def nearest_stored(
    stored: Float[Array, "m *pattern"], queries: Float[Array, "n *pattern"], undamaged: Bool[Array, "n *pattern"]
) -> Float[Array, "n *pattern"]:
    """The reading of an exact store: for each query the pattern that is nearest where the query is undamaged."""

    def of_one(query: Array, kept: Array) -> Array:
        differences = jnp.where(kept, stored - query, 0)
        distances = jnp.sum(differences**2, axis=tuple(range(1, stored.ndim)))
        return stored[jnp.argmin(distances)]

    return jax.vmap(of_one)(queries, undamaged)


def exact_bits(patterns: np.ndarray, domain: Domain) -> int:
    """The bits that a batch takes stored exactly: bits packed, or bytes, or floats, and deflated."""
    return 8 * len(deflated(patterns, domain))


def deflated(patterns: np.ndarray, domain: Domain) -> bytes:
    """The batch in the smallest of three plain forms that loses nothing, deflated."""
    return zlib.compress(_plain(np.asarray(patterns), domain), 9, wbits=-zlib.MAX_WBITS)


def _plain(patterns: np.ndarray, domain: Domain) -> bytes:
    if domain is not None:
        low, high = domain
        if np.all((patterns == low) | (patterns == high)):
            return np.packbits(patterns == high).tobytes()
        levels = (patterns - low) * (255 / (high - low))
        if np.all(np.abs(levels - levels.round()) < 1e-3):
            return levels.round().astype(np.uint8).tobytes()
    return patterns.astype(np.float32).tobytes()
