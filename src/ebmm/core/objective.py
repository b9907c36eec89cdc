"""The meta-objective: what one episode of writing and reading costs."""

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
    """Write the patterns, read the queries, and sum the error over all read iterates: Σₖ 1/N Σᵢ ‖xᵢ − xᵢ⁽ᵏ⁾‖².

    Its gradient with respect to the model is the meta-gradient.
    """
    if queries.shape != patterns.shape:
        raise ValueError(f"queries have shape {queries.shape}; expected {patterns.shape}, one for each pattern.")
    return model.loss(patterns, queries, known=known, key=key)[0]
