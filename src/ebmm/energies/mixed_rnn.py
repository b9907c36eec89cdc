"""A gated RNN with its memory between learned matrices: not the paper's, and with far fewer errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import he_linear


class MixedRNN(eqx.Module):
    """`GatedRNN` but for where its memory is: (seen + 1) · memory_width floats, by default as many as there.

    In the paper's network the memory has units of its own, a sixteenth of all, and sees the bits as they are. Here it
    sees them in several `views`, each through a static matrix, and other static matrices add what it says of each to
    candidate and gate of every unit. With the memory W, the units see M = Σᵥ Bᵥ W Aᵥ, whose rank is not bound by the
    memory's width, and a gradient step on W moves M along directions that meta-learning has chosen.
    """

    memory: eqx.nn.Linear
    inward: Float[Array, "views seen bits"]
    outward: Float[Array, "views two_hidden memory_width"]
    static: eqx.nn.Linear
    out: eqx.nn.Linear
    bits: int = eqx.field(static=True)
    seen: int = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    hops: int = eqx.field(static=True)
    views: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        bits: int = 128,
        seen: int | None = None,
        memory_width: int = 64,
        hidden: int = 256,
        hops: int = 3,
        views: int = 2,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 5)
        seen = bits if seen is None else seen
        self.memory = he_linear(seen, memory_width, key=keys[0])
        self.inward = jax.random.normal(keys[1], (views, seen, bits)) / bits**0.5
        # Half as much as a memory alone would give: beside it stands what the static layer makes of the string.
        outward = jax.random.normal(keys[2], (views, 2 * hidden, memory_width))
        self.outward = 0.5 * outward / (views * memory_width) ** 0.5
        self.static = he_linear(bits + hidden, 2 * hidden, key=keys[3])
        self.out = he_linear(hidden, 1, key=keys[4])
        self.bits, self.seen, self.memory_width = bits, seen, memory_width
        self.hidden, self.hops, self.views = hidden, hops, views

    @property
    def writable(self) -> tuple[eqx.nn.Linear]:
        return (self.memory,)

    def __call__(self, string: Float[Array, " bits"]) -> Float[Array, ""]:
        seen = jax.vmap(self.memory)(self.inward @ string)
        from_memory = jnp.einsum("vhm,vm->h", self.outward, seen)
        # The string's share is the same at every hop, and the first state is zero.
        weight, bias = self.static.weight, self.static.bias
        from_string = from_memory + weight[:, : self.bits] @ string + bias  # pyright: ignore[reportOperatorIssue]

        state = jnp.zeros_like(string, shape=self.hidden)
        for hop in range(self.hops):
            from_state = weight[:, self.bits :] @ state if hop else 0
            candidate, gate = jnp.split(from_string + from_state, 2)
            gate = jax.nn.sigmoid(gate)
            state = gate * jnp.tanh(candidate) + (1 - gate) * state
        return self.out(state)[0]
