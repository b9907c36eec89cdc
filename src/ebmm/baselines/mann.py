"""The Memory-Augmented Neural Network: a recurrent controller that writes to the slot it needs least."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from ..layers import he_linear
from .codec import AbstractCodec, clamp, codec_for, hide_damage

Slots = Float[Array, "slots width"]
Weights = Float[Array, " slots"]
Hidden = tuple[Float[Array, " hidden"], Float[Array, " hidden"]]
"""The controller's output and cells."""


def by_content(key: Float[Array, " width"], slots: Slots, strength: Float[Array, ""]) -> Weights:
    """A softmax over the slots of their cosine with the key; an empty slot has cosine 0."""
    squares = jnp.sum(slots**2, axis=1) * jnp.sum(key**2)
    return jax.nn.softmax(strength * (slots @ key) * jax.lax.rsqrt(squares + 1e-6))


def least_used(usage: Weights) -> Weights:
    """1 at the slot with the least usage, the first of several, and 0 elsewhere."""
    return jax.nn.one_hot(jnp.argmin(usage), usage.size, dtype=usage.dtype)


def store(slots: Slots, usage: Weights, read: Weights, key: Array, gate: Array, decay: float) -> tuple[Slots, Weights]:
    """Add the key to the slot just read, as far as the gate is open, and else put it into the least used slot.

    Also returns the usage thereafter: what was used before decays, and what was read or written now counts.
    """
    least = least_used(usage)
    written = gate * read + (1 - gate) * least
    kept = 1 - (1 - gate) * least  # the least used slot is emptied as far as it is written to
    return kept[:, None] * slots + jnp.outer(written, key), decay * usage + read + written


class Orders(NamedTuple):
    """What the controller tells the memory."""

    key: Float[Array, " width"]
    strength: Float[Array, ""]
    gate: Float[Array, ""]


class MANN(AbstractMemoryModel):
    """Least recently used access with an LSTM as the controller (Santoro and others 2016).

    Writing shows the patterns one after the other. For each, the controller issues a key; the slots are read by
    their cosine with it; and the key itself is stored, in the slot just read or in the least used one, as a learned
    gate decides. Reading starts the controller afresh for every query and shows it `looks` times, with what the
    last look has read. The answer is decoded from the controller's output, its input and the vector read.

    Only the slots are kept from writing to reading, so that the memory is slots × width floats: 64 · 129 = 8,256 by
    default. Usage weights and the controller's state serve writing alone, and start anew with every batch.

    Unlike the original, the key sees the code past the controller, the softmax has a learned strength (without one,
    cosines cannot single out one of 64 slots), the controller reads before it writes, and what makes room is
    emptied only as far as it is written to.
    """

    codec: AbstractCodec
    controller: eqx.nn.LSTMCell
    orders: eqx.nn.Linear
    answer: eqx.nn.Linear
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)
    slots: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    looks: int = eqx.field(static=True)
    decay: float = eqx.field(static=True)
    code: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    def __init__(
        self,
        pattern_shape: tuple[int, ...],
        *,
        domain: Domain = (0.0, 1.0),
        slots: int = 64,
        width: int = 129,
        hidden: int = 256,
        looks: int = 2,
        decay: float = 0.99,
        code: int = 256,
        channels: int = 32,
        key: PRNGKeyArray,
    ):
        if min(slots, width, hidden, looks) < 1 or not 0 <= decay <= 1:
            raise ValueError(
                f"got {slots} slots of width {width}, {hidden} hidden units, {looks} looks and a decay of {decay}; "
                "expected at least one of each, and a decay from 0 to 1."
            )
        keys = jax.random.split(key, 4)
        self.pattern_shape, self.domain = tuple(pattern_shape), as_domain(domain)
        self.codec = codec_for(self.pattern_shape, self.domain, code=code, channels=channels, key=keys[0])
        seen = self.codec.code + hidden
        controller = eqx.nn.LSTMCell(self.codec.code + width, hidden, key=keys[1])
        open_to_the_past = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0)  # the bias of the forget gates
        self.controller = eqx.tree_at(lambda cell: cell.bias, controller, open_to_the_past)
        orders = he_linear(seen, width + 2, key=keys[2])
        # The first strength is 10, and the first gate nearly closed: a pattern starts out in a slot of its own.
        bias = jnp.zeros(width + 2).at[width:].set(jnp.array([10.0, -3.0]))
        self.orders = eqx.tree_at(lambda linear: linear.bias, orders, bias)
        self.answer = he_linear(seen + width, self.codec.code, key=keys[3])
        self.slots, self.width, self.hidden, self.looks, self.decay = slots, width, hidden, looks, float(decay)
        self.code, self.channels = code, channels

    @property
    def memory_size(self) -> int:
        return self.slots * self.width

    @property
    def initial_state(self) -> Slots:
        return jnp.zeros((self.slots, self.width))

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Slots:
        def show(carried: tuple[Hidden, Slots, Weights, Array], code: Array):
            state, slots, usage, vector = carried
            state, orders = self.control(state, code, vector)
            read = by_content(orders.key, slots, orders.strength)
            vector = read @ slots
            slots, usage = store(slots, usage, read, orders.key, orders.gate, self.decay)
            return (state, slots, usage, vector), None

        start = (self.fresh, self.initial_state, jnp.zeros(self.slots), jnp.zeros(self.width))
        return jax.lax.scan(show, start, jax.vmap(self.codec.encode)(patterns))[0][1]

    def read(
        self,
        state: Slots,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        def read_one(query: Array, known: Array | None) -> Array:
            code = self.codec.encode(hide_damage(query, known, self.domain))

            def look(carried: tuple[Hidden, Array], _: None) -> tuple[tuple[Hidden, Array], Array]:
                hidden, orders = self.control(carried[0], code, carried[1])
                vector = by_content(orders.key, state, orders.strength) @ state
                answer = self.answer(jnp.concatenate([hidden[0], code, vector]))
                return (hidden, vector), clamp(self.codec.decode(answer), query, known)

            return jax.lax.scan(look, (self.fresh, jnp.zeros(self.width)), length=self.looks)[1]

        trajectory = jax.vmap(read_one, out_axes=1)(queries, known)
        return Readout(trajectory[-1], trajectory, None)

    @property
    def fresh(self) -> Hidden:
        """The controller's state before it has seen anything."""
        return jnp.zeros(self.hidden), jnp.zeros(self.hidden)

    def control(
        self, state: Hidden, code: Float[Array, " code"], vector: Float[Array, " width"]
    ) -> tuple[Hidden, Orders]:
        """The controller's next state and its orders, from what is shown and what was read before."""
        state = self.controller(jnp.concatenate([code, vector]), state)
        out = self.orders(jnp.concatenate([state[0], code]))
        return state, Orders(out[:-2], jax.nn.softplus(out[-2]), jax.nn.sigmoid(out[-1]))

    def energies(self, state: Slots, patterns: Float[Array, "n *pattern"]) -> None:
        return None
