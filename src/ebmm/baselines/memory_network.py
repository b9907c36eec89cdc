"""The Memory Network: one encoded pattern a slot, read by attention."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from ..layers import he_linear
from .codec import AbstractCodec, clamp, codec_for, from_logits, hide_damage

Slots = Float[Array, "slots width"]


def attend(query: Float[Array, " width"], slots: Slots, strength: Float[Array, ""]) -> Float[Array, " slots"]:
    """How much of each slot is read: a softmax of its product with the query."""
    return jax.nn.softmax(strength * (slots @ query) / query.size)


class MemoryNetwork(AbstractMemoryModel):
    """Slots that are both key and value (Weston and others 2014), addressed softly (Sukhbaatar and others 2015).

    Writing puts a learned projection of each pattern's code into the next slot, round and round: with more patterns
    than slots the first are overwritten, which is Weston's way of forgetting. It explains the paper's numbers: of 96
    strings in 64 slots a third is lost, each with 32 of its 64 resampled bits wrong in the mean, and 32/3 = 10.7 is
    what the paper reports (10.5), with none wrong up to 64.

    Reading compares a projection of the query's code with all slots, and decodes their mean weighted by a softmax. In
    further hops the recalled pattern is the query. A slot's one vector serves as key and as value, so that the
    memory is slots × width floats.
    """

    codec: AbstractCodec
    store: eqx.nn.Linear
    ask: eqx.nn.Linear
    answer: eqx.nn.Linear
    log_strength: Float[Array, ""]
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)
    slots: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    hops: int = eqx.field(static=True)
    code: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    def __init__(
        self,
        pattern_shape: tuple[int, ...],
        *,
        domain: Domain = (0.0, 1.0),
        slots: int = 64,
        width: int = 129,
        hops: int = 1,
        code: int = 256,
        channels: int = 32,
        key: PRNGKeyArray,
    ):
        if min(slots, width, hops) < 1:
            raise ValueError(f"got {slots} slots of width {width} and {hops} hops; expected at least one of each.")
        keys = jax.random.split(key, 3)
        self.pattern_shape, self.domain = tuple(pattern_shape), as_domain(domain)
        self.codec = codec_for(self.pattern_shape, self.domain, code=code, channels=channels, key=keys[0])
        self.store = he_linear(self.codec.code, width, key=keys[1])
        # Queries start out projected as patterns are, so that a damaged copy finds its slot from the first update.
        self.ask = he_linear(self.codec.code, width, key=keys[1])
        self.answer = he_linear(width, self.codec.code, key=keys[2])
        # With the mean product of a pattern and itself at 2 after He's weights, e³ · 2 tells a match from chance.
        self.log_strength = jnp.array(3.0, float)
        self.slots, self.width, self.hops, self.code, self.channels = slots, width, hops, code, channels

    @property
    def memory_size(self) -> int:
        return self.slots * self.width

    @property
    def initial_state(self) -> Slots:
        return jnp.zeros((self.slots, self.width))

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Slots:
        count = patterns.shape[0]
        first = max(count - self.slots, 0)  # what comes before is overwritten
        vectors = jax.vmap(lambda pattern: self.store(self.codec.encode(pattern)))(patterns[first:])
        return self.initial_state.at[jnp.arange(first, count) % self.slots].set(vectors)

    def read(
        self,
        state: Slots,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        trajectory = clamp(from_logits(self._logits(state, queries, known), self.domain), queries, known)
        return Readout(trajectory[-1], trajectory, None)

    def _logits(
        self, state: Slots, queries: Float[Array, "n *pattern"], known: Bool[Array, "n *pattern"] | None
    ) -> Float[Array, "hops n *pattern"]:
        def read_one(query: Array, known: Array | None) -> Array:
            seen, all_logits = hide_damage(query, known, self.domain), []
            for _ in range(self.hops):
                weights = attend(self.ask(self.codec.encode(seen)), state, jnp.exp(self.log_strength))
                all_logits.append(self.codec.decode_logits(self.answer(weights @ state)))
                seen = clamp(from_logits(all_logits[-1], self.domain), query, known)
            return jnp.stack(all_logits)

        return jax.vmap(read_one, out_axes=1)(queries, known)

    def energies(self, state: Slots, patterns: Float[Array, "n *pattern"]) -> None:
        return None
