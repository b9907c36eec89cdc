"""How far a recalled pattern is from the stored one: one number."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..interface import Domain

Metric = Callable[[Float[Array, "*pattern"], Float[Array, "*pattern"], Domain], Float[Array, ""]]


def hamming(recalled: Float[Array, "*pattern"], stored: Float[Array, "*pattern"], domain: Domain) -> Float[Array, ""]:
    """The number of dimensions on the wrong side of the middle of the domain; one that is no number is wrong."""
    if domain is None:
        raise ValueError("The Hamming distance needs a domain with a middle; use the squared error.")
    middle = sum(domain) / 2
    wrong = ((recalled > middle) != (stored > middle)) | jnp.isnan(recalled)
    return jnp.sum(wrong).astype(jnp.float32)


def squared_error(
    recalled: Float[Array, "*pattern"], stored: Float[Array, "*pattern"], domain: Domain
) -> Float[Array, ""]:
    """The squared error summed over all dimensions."""
    return jnp.sum((recalled - stored) ** 2)


METRICS: dict[str, Metric] = {"hamming": hamming, "squared": squared_error}
