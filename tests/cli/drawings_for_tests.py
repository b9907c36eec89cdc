"""A memory of drawings of 8×8 pixels that is quick to compile and does recall: a linear associative memory."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ebmm.interface import AbstractMemoryModel, Readout

SIDE = 8


class Associative(AbstractMemoryModel):
    """Weights that project on the patterns, read in two steps; `strength` tells models apart."""

    strength: float = eqx.field(static=True, default=1.0)
    pattern_shape: tuple[int, ...] = eqx.field(static=True, default=(SIDE, SIDE, 1))
    domain: tuple[float, float] | None = eqx.field(static=True, default=(0.0, 1.0))

    @property
    def memory_size(self):
        return SIDE**4

    @property
    def initial_state(self):
        return jnp.zeros((SIDE**2, SIDE**2))

    def write(self, patterns, *, key=None):
        signs = signs_of(patterns)
        return self.strength * jnp.linalg.pinv(signs) @ signs

    def read(self, state, queries, *, known=None, key=None):
        first = (signs_of(queries) @ state > 0).astype(float).reshape(queries.shape)
        second = (signs_of(first) @ state > 0).astype(float).reshape(queries.shape)
        energies = jnp.stack([self.energies(state, patterns) for patterns in (queries, first, second)])
        return Readout(second, jnp.stack([first, second]), energies)

    def energies(self, state, patterns):
        signs = signs_of(patterns)
        return -jnp.einsum("ni,ij,nj->n", signs, state, signs)


def signs_of(patterns: Array) -> Array:
    return 2 * patterns.reshape(len(patterns), -1) - 1
