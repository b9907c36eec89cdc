"""An episode: what is written, and what is then asked."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float


class Episode(NamedTuple):
    """Patterns to store, damaged copies to recover them from, and the dimensions that are undamaged, if known."""

    patterns: Float[Array, "n *pattern"]
    queries: Float[Array, "n *pattern"]
    known: Bool[Array, "n *pattern"] | None
