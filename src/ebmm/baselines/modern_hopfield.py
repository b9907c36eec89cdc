"""Modern Hopfield networks: the patterns themselves are the memory, and a steep energy tells them apart."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain

Slots = Float[Array, "slots size"]
ENERGIES = ("softmax", "distance", "polynomial")
ORDERS = ("asynchronous", "synchronous")
EMPTY = -1e9  # the score of an empty slot: no weight beside a full one, and finite where all are empty


class ModernHopfield(AbstractMemoryModel):
    """A slot for each pattern, three energies to read them with. Nothing is learned.

    The domain is moved to [−1, 1], so that patterns of bits have the same length and a dot product ranks them
    by their Hamming distance. A slot of zeros is empty. With slots xᵢ and a pattern ξ of d dimensions,

    - `softmax` (Ramsauer and others 2020) is E = −1/β log Σ exp(β xᵢ·ξ) + ½‖ξ‖², lowered by
      ξ ← Σ xᵢ softmaxᵢ(β xᵢ·ξ);
    - `distance` is the same with xᵢ·ξ − ½‖xᵢ‖² in place of xᵢ·ξ: for patterns of unequal length, of which the
      first recalls the longest. For bits the two have the same updates;
    - `polynomial` (Krotov and Hopfield 2016) is E = −Σ F(xᵢ·ξ / d) with F(s) = max(s, 0)^degree, lowered bit by
      bit: each takes the end of the domain with the lower energy. It recalls bits only.

    A read takes so many `steps`: updates of the whole pattern, or sweeps over all bits, which are in random order,
    each seeing those before it (asynchronous), or all at once (synchronous).
    """

    pattern_shape: tuple[int, ...] = eqx.field(static=True, converter=tuple)
    patterns: int = eqx.field(static=True, default=64)
    energy: str = eqx.field(static=True, default="softmax")
    beta: float = eqx.field(static=True, default=1.0)
    degree: int = eqx.field(static=True, default=60)
    order: str = eqx.field(static=True, default="asynchronous")
    steps: int = eqx.field(static=True, default=5)
    domain: Domain = eqx.field(static=True, default=(0.0, 1.0), converter=as_domain)

    def __check_init__(self):
        if not self.pattern_shape or min(*self.pattern_shape, self.patterns, self.degree, self.steps) < 1:
            raise ValueError(
                f"got patterns of shape {self.pattern_shape}, room for {self.patterns}, degree {self.degree} and "
                f"{self.steps} steps; expected at least 1 everywhere."
            )
        if not 0 < self.beta < math.inf:
            raise ValueError(f"beta: got {self.beta}; expected a positive number, the larger the sharper.")
        if self.energy not in ENERGIES or self.order not in ORDERS:
            raise ValueError(
                f"got energy {self.energy!r} and order {self.order!r}; expected one of {', '.join(ENERGIES)}, and "
                f"{' or '.join(ORDERS)}."
            )
        if self.energy == "polynomial" and self.domain is None:
            raise ValueError("domain: got None; a polynomial energy reads bits and needs two ends: give (low, high).")

    @property
    def memory_size(self) -> int:
        """One float for each dimension of each pattern that there is room for."""
        return self.patterns * math.prod(self.pattern_shape)

    @property
    def initial_state(self) -> Slots:
        return jnp.zeros((self.patterns, math.prod(self.pattern_shape)))

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Slots:
        count = len(patterns)
        if count > self.patterns:
            raise ValueError(
                f"got {count} patterns; this memory has room for {self.patterns}: make one with patterns={count}."
            )
        return jnp.pad(self._centred(patterns), [(0, self.patterns - count), (0, 0)])

    def read(
        self,
        state: Slots,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        key = jax.random.key(0) if key is None else key
        n = len(queries)
        clamped = jnp.zeros((n, state.shape[1]), bool) if known is None else known.reshape(n, -1)
        step = self._sweep if self.energy == "polynomial" else self._average

        def read_one(query: Array, clamped: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
            def take(pattern: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
                pattern = step(state, pattern, clamped, key)
                return pattern, pattern

            trajectory = jax.lax.scan(take, query, jax.random.split(key, self.steps))[1]
            visited = jnp.concatenate([query[None], trajectory])
            return trajectory, jax.vmap(lambda pattern: self._energy(state, pattern))(visited)

        keys = jax.random.split(key, n)
        trajectory, energies = jax.vmap(read_one, out_axes=1)(self._centred(queries), clamped, keys)
        trajectory = self._restored(trajectory).reshape(self.steps, *queries.shape)
        if known is not None:
            trajectory = jnp.where(known, queries, trajectory)  # exactly, not up to rounding
        return Readout(trajectory[-1], trajectory, energies)

    def energies(self, state: Slots, patterns: Float[Array, "n *pattern"]) -> Float[Array, " n"]:
        return jax.vmap(lambda pattern: self._energy(state, pattern))(self._centred(patterns))

    def _scores(self, slots: Slots, pattern: Float[Array, " size"]) -> Float[Array, " slots"]:
        lengths = jnp.sum(slots**2, axis=1)
        scores = slots @ pattern - (lengths / 2 if self.energy == "distance" else 0)
        return jnp.where(lengths > 0, self.beta * scores, EMPTY)

    def _energy(self, slots: Slots, pattern: Float[Array, " size"]) -> Float[Array, ""]:
        if self.energy == "polynomial":
            return -jnp.sum(self._steep(slots @ pattern))
        return jnp.sum(pattern**2) / 2 - jax.nn.logsumexp(self._scores(slots, pattern)) / self.beta

    def _average(self, slots: Slots, pattern: Array, clamped: Array, key: PRNGKeyArray) -> Float[Array, " size"]:
        """The slots weighted by a softmax: the least of the energy's upper bound at the pattern."""
        weights = jax.nn.softmax(self._scores(slots, pattern))
        return jnp.where(clamped, pattern, weights @ slots)

    def _sweep(self, slots: Slots, pattern: Array, clamped: Array, key: PRNGKeyArray) -> Float[Array, " size"]:
        def better(bit: Array, column: Array, others: Array) -> Array:
            """±1 by the energies of both, where `others` are the overlaps without this bit."""
            gain = jnp.sum(self._steep(others + column) - self._steep(others - column))
            return jnp.where(gain == 0, bit, jnp.sign(gain))  # undecided bits stay

        if self.order == "synchronous":
            others = slots @ pattern - (slots * pattern).T
            return jnp.where(clamped, pattern, jax.vmap(better)(pattern, slots.T, others))

        def one_bit(carry: tuple[Array, Array], index: Array) -> tuple[tuple[Array, Array], None]:
            pattern, overlaps = carry
            bit, column = pattern[index], slots[:, index]
            others = overlaps - column * bit
            new = jnp.where(clamped[index], bit, better(bit, column, others))
            return (pattern.at[index].set(new), others + column * new), None

        start = pattern, slots @ pattern
        return jax.lax.scan(one_bit, start, jax.random.permutation(key, pattern.size))[0][0]

    def _steep(self, overlaps: Float[Array, " slots"]) -> Float[Array, " slots"]:
        return jax.nn.relu(overlaps / math.prod(self.pattern_shape)) ** self.degree

    def _centred(self, patterns: Float[Array, "n *pattern"]) -> Float[Array, "n size"]:
        flat = patterns.reshape(len(patterns), -1)
        if self.domain is None:
            return flat
        low, high = self.domain
        return (flat - (low + high) / 2) * (2 / (high - low))

    def _restored(self, centred: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
        if self.domain is None:
            return centred
        low, high = self.domain
        return jnp.clip(centred * ((high - low) / 2) + (low + high) / 2, low, high)
