"""The meta-objective: what one episode of writing and reading costs."""

from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel


def reconstruction_loss(
    model: AbstractMemoryModel,
    patterns: Float[Array, "n *pattern"],
    queries: Float[Array, "copies_of_n *pattern"],
    *,
    known: Bool[Array, "copies_of_n *pattern"] | None = None,
    key: PRNGKeyArray | None = None,
) -> Float[Array, ""]:
    """Write the patterns, read the queries, and sum the error over all read iterates: Σₖ 1/N Σᵢ ‖xᵢ − xᵢ⁽ᵏ⁾‖².

    Its gradient with respect to the model is the meta-gradient. Queries may be several copies of all patterns.
    """
    copies, more = divmod(len(queries), len(patterns))
    if queries.shape[1:] != patterns.shape[1:] or more or not copies:
        expected = f"{patterns.shape}, one for each pattern, or several copies of all, one after the other"
        raise ValueError(f"queries have shape {queries.shape}; expected {expected}.")
    return model.loss(patterns, queries, known=known, key=key)[0]
