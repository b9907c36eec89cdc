"""Writing that checks itself, for patterns that are not those of training: other ones, or another number of them.

The learned write steps are not a descent that could go on. They end where reading works, and a little longer or shorter
they may miss it altogether. So what was written is tried: each pattern is read from itself, undamaged. A memory that
holds it gives it back. Where it does not, steps of other lengths are tried, and the ones are kept that give most back.
That takes a few more writes and reads, and nothing but the patterns themselves (`docs/log.md` has numbers).

It cannot tell a memory that holds its patterns from one whose energy is so flat that nothing moves. Where a memory is
too full to give them back, steps that flatten it may look best: such a memory is to be written as learned.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .core.energy import Layers
from .core.model import EBMM
from .fewer import with_steps
from .interface import AbstractMemoryModel, Domain, Readout

LENGTHS = (1.0, 1.08, 0.93, 1.16, 0.86, 1.25, 0.75, 0.6, 0.45, 0.3)
"""Of the write steps, times the learned ones, in the order in which they are tried."""
ENOUGH = 0.02
"""The first length is kept that gives patterns back with this error (see `error_from_themselves`)."""


class Tried(NamedTuple):
    """What is known after some lengths."""

    lengths: Int[Array, ""]
    """How many of them."""
    best: Layers
    error: Float[Array, ""]
    """Of the best."""


class Careful(AbstractMemoryModel):
    """The same model, written with steps of the length that gives the patterns back best."""

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
        def is_to_go_on(tried: Tried) -> Bool[Array, ""]:
            return (tried.lengths < len(LENGTHS)) & ~(tried.error <= ENOUGH)

        def one_more(tried: Tried) -> Tried:
            state = with_steps(self.model, jnp.array(LENGTHS)[tried.lengths]).write(patterns)
            error = error_from_themselves(self.model, state, patterns)
            is_better = (error < tried.error) | (tried.lengths == 0)  # so that what is not finite is told if all are so
            best = jax.tree.map(lambda new, old: jnp.where(is_better, new, old), state, tried.best)
            return Tried(tried.lengths + 1, best, jnp.where(is_better, error, tried.error))

        start = Tried(jnp.array(0), self.initial_state, jnp.array(jnp.inf, patterns.dtype))
        return jax.lax.while_loop(is_to_go_on, one_more, start).best

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


def error_from_themselves(model: EBMM, state: Layers, patterns: Float[Array, "n *pattern"]) -> Float[Array, ""]:
    """The root mean square error of patterns that are read from themselves, over all read steps: 0 where every one
    stays as it is, and 1 where each value is half the domain away. Infinite where a number is not finite.
    """
    out = model.read(state, patterns)
    half = jnp.std(patterns) if model.domain is None else (model.domain[1] - model.domain[0]) / 2
    error = jnp.sqrt(jnp.mean((out.trajectory - patterns) ** 2)) / half
    return jnp.where(jnp.isfinite(error), error, jnp.inf)


def carefully(model: AbstractMemoryModel) -> AbstractMemoryModel:
    """The same model, written with care; other systems have no steps to choose."""
    return Careful(model) if isinstance(model, EBMM) else model
