"""The Hopfield network: patterns of ±1 stored in a symmetric matrix, read by flipping bits downhill."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout

Weights = Float[Array, "bits bits"]


def hebb(patterns: Float[Array, "n bits"]) -> Weights:
    """The sum of outer products (Hopfield 1982)."""
    return patterns.T @ patterns / patterns.shape[1]


def storkey(patterns: Float[Array, "n bits"]) -> Weights:
    """One pattern after the other, each corrected by the fields that the earlier ones cause (Storkey 1997).

    wᵢⱼ += (ξᵢξⱼ − ξᵢhⱼᵢ − hᵢⱼξⱼ) / bits, with the local field hᵢⱼ = Σ wᵢₖξₖ over k other than i and j.
    """
    bits = patterns.shape[1]

    def add(weights: Array, pattern: Array) -> tuple[Array, None]:
        products = weights * pattern  # wᵢₖ ξₖ
        fields = jnp.sum(products, axis=1, keepdims=True) - jnp.diag(products)[:, None] - products
        fields = jnp.where(jnp.eye(bits, dtype=bool), fields + jnp.diag(products)[:, None], fields)  # k = i = j once
        correction = pattern[:, None] * fields.T + fields * pattern[None, :]
        return weights + (jnp.outer(pattern, pattern) - correction) / bits, None

    return jax.lax.scan(add, jnp.zeros((bits, bits)), patterns)[0]


def pseudo_inverse(patterns: Float[Array, "n bits"]) -> Weights:
    """The projection on the space of the patterns (Personnaz and others 1985): they are fixed points."""
    return jnp.linalg.pinv(patterns) @ patterns


RULES = {"hebb": hebb, "storkey": storkey, "pseudo-inverse": pseudo_inverse}


class Hopfield(AbstractMemoryModel):
    """No self-connections. A read sweeps over all bits `sweeps` times: in random order, each seeing the bits
    before it (asynchronous), or all at once (synchronous). Nothing is learned.

    After 10 sweeps synchronous reads of 128 bits still improve; after 20 they rest, or go back and forth between two
    patterns.
    """

    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    rule: str = eqx.field(static=True, default="hebb")
    order: str = eqx.field(static=True, default="asynchronous")
    sweeps: int = eqx.field(static=True, default=30)
    domain: Domain = eqx.field(static=True, default=(-1.0, 1.0))

    def __check_init__(self):
        if len(self.pattern_shape) != 1 or self.sweeps < 1:
            raise ValueError(
                f"got patterns of shape {self.pattern_shape} and {self.sweeps} sweeps; expected (bits,) and at least "
                "one sweep."
            )
        if self.domain != (-1.0, 1.0):
            raise ValueError(f"domain: got {self.domain}; a Hopfield network stores values of ±1.")
        if self.rule not in RULES or self.order not in ("asynchronous", "synchronous"):
            raise ValueError(
                f"got rule {self.rule!r} and order {self.order!r}; expected {', '.join(RULES)}, and asynchronous or "
                "synchronous."
            )

    @property
    def memory_size(self) -> int:
        """Each weight of the symmetric matrix once, and one number a bit, as the paper counts."""
        bits = self.pattern_shape[0]
        return bits * (bits - 1) // 2 + bits

    @property
    def initial_state(self) -> Weights:
        return jnp.zeros(2 * self.pattern_shape)

    def write(self, patterns: Float[Array, "n bits"], *, key: PRNGKeyArray | None = None) -> Weights:
        weights = RULES[self.rule](patterns)
        return weights - jnp.diag(jnp.diag(weights))

    def read(
        self,
        state: Weights,
        queries: Float[Array, "n bits"],
        *,
        known: Bool[Array, "n bits"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        key = jax.random.key(0) if key is None else key
        clamped = jnp.zeros(queries.shape, bool) if known is None else known

        def flip(bits: Array, fields: Array) -> Array:
            return jnp.where(fields == 0, bits, jnp.sign(fields))  # undecided bits stay

        def read_one(query: Array, clamped: Array, key: PRNGKeyArray) -> Array:
            def one_bit(pattern: Array, index: Array) -> tuple[Array, None]:
                new = flip(pattern[index], state[index] @ pattern)
                return pattern.at[index].set(jnp.where(clamped[index], pattern[index], new)), None

            def sweep(pattern: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
                if self.order == "synchronous":
                    pattern = jnp.where(clamped, pattern, flip(pattern, state @ pattern))
                else:
                    pattern, _ = jax.lax.scan(one_bit, pattern, jax.random.permutation(key, pattern.size))
                return pattern, pattern

            return jax.lax.scan(sweep, query, jax.random.split(key, self.sweeps))[1]

        trajectory = jax.vmap(read_one, out_axes=1)(queries, clamped, jax.random.split(key, len(queries)))
        energies = jax.vmap(lambda patterns: self.energies(state, patterns))(
            jnp.concatenate([queries[None], trajectory])
        )
        return Readout(trajectory[-1], trajectory, energies)

    def energies(self, state: Weights, patterns: Float[Array, "n bits"]) -> Float[Array, " n"]:
        return -0.5 * jnp.einsum("ni,ij,nj->n", patterns, state, patterns)
