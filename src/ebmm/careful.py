"""Writing patterns unlike those of training.

The learned write steps are as long as the patterns of training can bear. Others may have steeper gradients, and the
same steps go too far: what was to be stored ends at a higher energy than it began. So several shorter lengths are tried
as well, and the one is kept that leaves the patterns at the lowest energy on average. That takes as many writes as
there are lengths, and nothing but the patterns themselves (`docs/log.md` has numbers).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .core.energy import Layers
from .core.model import EBMM
from .fewer import with_steps
from .interface import AbstractMemoryModel, Domain, Readout

LENGTHS = (1.0, 0.8, 0.65, 0.5, 0.35)
"""Of the write steps, times the learned ones."""


class Careful(AbstractMemoryModel):
    """The same model, written with the length of steps that leaves the patterns at the lowest energy."""

    model: EBMM
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def __init__(self, model: EBMM):
        self.model = model
        self.pattern_shape, self.domain = model.pattern_shape, model.domain

    @property
    def initial_state(self) -> Layers:
        return self.model.initial_state

    @property
    def memory_size(self) -> int:
        return self.model.memory_size

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Layers:
        def written(length: Array) -> tuple[Layers, Array]:
            state = with_steps(self.model, length).write(patterns)
            return state, jnp.mean(self.model.energies(state, patterns))

        states, energies = jax.lax.map(written, jnp.array(LENGTHS))
        best = jnp.argmin(jnp.where(jnp.isfinite(energies), energies, jnp.inf))
        return jax.tree.map(lambda array: array[best], states)

    def read(
        self,
        state: Layers,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        return self.model.read(state, queries, known=known)

    def energies(self, state: Layers, patterns: Float[Array, "n *pattern"]) -> Float[Array, " n"]:
        return self.model.energies(state, patterns)


def carefully(model: AbstractMemoryModel) -> AbstractMemoryModel:
    """The same model, written with care; other systems have no steps to choose."""
    return Careful(model) if isinstance(model, EBMM) else model
