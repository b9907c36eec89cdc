"""The exact store: every bit of every pattern, 32 to a word, and the nearest pattern as the answer."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt32

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain

WORD = 32
Words = UInt32[Array, "slots words"]


def pack(bits: Bool[Array, "n size"]) -> UInt32[Array, "n words"]:
    """Thirty-two bits a word, the first in the lowest place, zeros at the end."""
    padded = jnp.pad(bits, [(0, 0), (0, -bits.shape[1] % WORD)])
    grouped = padded.reshape(len(bits), -1, WORD).astype(jnp.uint32)
    return jnp.sum(grouped << jnp.arange(WORD, dtype=jnp.uint32), axis=-1, dtype=jnp.uint32)


def unpack(words: UInt32[Array, " words"], size: int) -> Bool[Array, " size"]:
    bits = (words[:, None] >> jnp.arange(WORD, dtype=jnp.uint32)) & 1
    return bits.reshape(-1)[:size].astype(bool)


class ExactStore(AbstractMemoryModel):
    """What a memory of bits has to be weighed against: no compression beyond packing, no learning, no mistakes
    in what is stored. A word is as large as a float, so that a drawing of 32×32 bits costs 32 floats.

    Reading returns the stored pattern at the smallest Hamming distance, over the known dimensions where they are
    given. That distance is the energy.
    """

    pattern_shape: tuple[int, ...] = eqx.field(static=True, converter=tuple)
    patterns: int = eqx.field(static=True, default=64)
    domain: Domain = eqx.field(static=True, default=(0.0, 1.0), converter=as_domain)

    def __check_init__(self):
        if not self.pattern_shape or min(*self.pattern_shape, self.patterns) < 1:
            raise ValueError(
                f"got patterns of shape {self.pattern_shape} and room for {self.patterns}; expected at least 1."
            )
        if self.domain is None:
            raise ValueError(
                "domain: got None; an exact store holds bits and needs their two values: give (low, high)."
            )

    @property
    def memory_size(self) -> int:
        """In 32-bit words."""
        return self.patterns * -(-math.prod(self.pattern_shape) // WORD)

    @property
    def initial_state(self) -> Words:
        """As if patterns of the lowest value had been stored: white paper."""
        return jnp.zeros((self.patterns, -(-math.prod(self.pattern_shape) // WORD)), jnp.uint32)

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Words:
        if not 1 <= len(patterns) <= self.patterns:
            raise ValueError(
                f"got {len(patterns)} patterns; expected 1 to {self.patterns}: for more, make a store with more."
            )
        if not isinstance(patterns, Tracer) and not np.isin(patterns, np.array(self.domain)).all():
            raise ValueError(
                f"got values beside {self.domain}; an exact store holds bits: round the patterns, or use a memory for "
                "real numbers."
            )
        # Slots to spare hold the first pattern again, which changes no nearest pattern.
        indices = jnp.where(jnp.arange(self.patterns) < len(patterns), jnp.arange(self.patterns), 0)
        return pack(self._bits(patterns))[indices]

    def read(
        self,
        state: Words,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        low, high = self._ends
        compared = pack(
            jnp.ones((len(queries), queries[0].size), bool) if known is None else known.reshape(len(queries), -1)
        )

        def nearest(query: Array, compared: Array) -> Array:
            distances = _distances(state & compared, query & compared)
            return unpack(state[jnp.argmin(distances)], math.prod(self.pattern_shape))

        bits = jax.vmap(nearest)(pack(self._bits(queries)), compared).reshape(queries.shape)
        recalled = jnp.where(bits, high, low).astype(queries.dtype)
        recalled = recalled if known is None else jnp.where(known, queries, recalled)
        energies = jnp.stack([self.energies(state, queries), self.energies(state, recalled)])
        return Readout(recalled, recalled[None], energies)

    def energies(self, state: Words, patterns: Float[Array, "n *pattern"]) -> Float[Array, " n"]:
        """The number of bits by which each differs from the nearest stored pattern."""
        nearest = jax.vmap(lambda words: jnp.min(_distances(state, words)))
        return nearest(pack(self._bits(patterns))).astype(float)

    @property
    def _ends(self) -> tuple[float, float]:
        assert self.domain is not None  # refused when the store was made
        return self.domain

    def _bits(self, patterns: Float[Array, "n *pattern"]) -> Bool[Array, "n size"]:
        return patterns.reshape(len(patterns), -1) > sum(self._ends) / 2


def _distances(stored: Words, words: UInt32[Array, " words"]) -> Array:
    return jnp.sum(jax.lax.population_count(stored ^ words).astype(jnp.int32), axis=1)
