"""An episode: what is written, and what is then asked."""

from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import repeated
from .distortions import UNIT, AbstractDistortion
from .images import AbstractPatterns


class Episode(NamedTuple):
    """Patterns to store, damaged copies to recover them from, and the dimensions that are undamaged, if known."""

    patterns: Float[Array, "n *pattern"]
    queries: Float[Array, "copies_of_n *pattern"]
    known: Bool[Array, "copies_of_n *pattern"] | None


class Episodes(eqx.Module):
    """Draws episodes inside a compiled function: a batch of patterns without repeats, and damage to each.

    The patterns are put on the accelerator here and once. Pass the object to the compiled function as an argument,
    so that they are not compiled into it.
    """

    source: AbstractPatterns = eqx.field(converter=jax.device_put)
    damage: AbstractDistortion
    patterns: int = eqx.field(static=True)
    reveal: bool = eqx.field(static=True, default=False)
    """Whether the reader is told which dimensions are undamaged."""
    copies: int = eqx.field(static=True, default=1)
    """Damaged copies of each pattern, all patterns once before any comes again."""

    def __check_init__(self):
        for name in ("patterns", "copies"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}; expected at least 1.")

    def __call__(self, key: PRNGKeyArray) -> Episode:
        stored, queries, undamaged = self.with_mask(key)
        return Episode(stored, queries, undamaged if self.reveal else None)

    def with_mask(
        self, key: PRNGKeyArray
    ) -> tuple[Float[Array, "n *pattern"], Float[Array, "copies_of_n *pattern"], Bool[Array, "copies_of_n *pattern"]]:
        """The same patterns and queries, and always the undamaged dimensions: for those who judge a reader."""
        draw_key, damage_key = jax.random.split(key)
        stored = self.source.draw(self.patterns, key=draw_key)
        domain = UNIT if self.source.domain is None else self.source.domain

        def damaged(pattern: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
            return self.damage(pattern, key=key, domain=domain)

        keys = jax.random.split(damage_key, self.copies * self.patterns)
        queries, undamaged = jax.vmap(damaged)(repeated(stored, self.copies), keys)
        return stored, queries, undamaged
