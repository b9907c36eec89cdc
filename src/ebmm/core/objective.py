"""The meta-objective: what one episode of writing and reading costs."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel


def reconstruction_loss(
    model: AbstractMemoryModel,
    patterns: Float[Array, "n *pattern"],
    queries: Float[Array, "n *pattern"],
    *,
    known: Bool[Array, "n *pattern"] | None = None,
    key: PRNGKeyArray | None = None,
) -> Float[Array, ""]:
    """Write the patterns, read the queries, and sum the error over all read iterates.

    Its gradient with respect to the model is the meta-gradient.
    """
    if queries.shape != patterns.shape:
        raise ValueError(f"queries have shape {queries.shape}; expected {patterns.shape}, one for each pattern.")
    write_key, read_key = (None, None) if key is None else jax.random.split(key)
    state = model.write(patterns, key=write_key)
    return stepwise_error(model.read(state, queries, known=known, key=read_key).trajectory, patterns)


def stepwise_error(
    trajectory: Float[Array, "steps n *pattern"], patterns: Float[Array, "n *pattern"]
) -> Float[Array, ""]:
    """Σₖ 1/N Σᵢ ‖xᵢ − xᵢ⁽ᵏ⁾‖²."""
    return jnp.sum((trajectory - patterns) ** 2) / patterns.shape[0]
