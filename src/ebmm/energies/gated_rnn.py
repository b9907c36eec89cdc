"""The gated RNN, for binary strings."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import he_linear


class GatedRNN(eqx.Module):
    """A recurrent network that sees the same string at every hop; (bits + 1) · memory_width floats of memory.

    The paper's pseudocode would give 63 memory units; its stated budget of 8,256 floats is 64 of them,
    biases included.
    """

    memory: eqx.nn.Linear
    static: eqx.nn.Linear
    gate: eqx.nn.Linear
    out: eqx.nn.Linear
    bits: int = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    hops: int = eqx.field(static=True)

    def __init__(
        self, *, bits: int = 128, memory_width: int = 64, hidden: int = 1024, hops: int = 5, key: PRNGKeyArray
    ):
        keys = jax.random.split(key, 4)
        self.memory = he_linear(bits, memory_width, key=keys[0])
        self.static = he_linear(bits + hidden, hidden - memory_width, key=keys[1])
        self.gate = he_linear(bits + hidden, hidden, key=keys[2])
        self.out = he_linear(hidden, 1, key=keys[3])
        self.bits, self.memory_width, self.hidden, self.hops = bits, memory_width, hidden, hops

    @property
    def writable(self) -> tuple[eqx.nn.Linear]:
        return (self.memory,)

    def __call__(self, string: Float[Array, " bits"]) -> Float[Array, ""]:
        # Candidate and gate read the same [string, state]: one matrix serves both. The string's part of the
        # product is the same at every hop, and the first state is zero.
        weight = jnp.concatenate([self.static.weight, self.gate.weight])
        bias = jnp.concatenate([self.static.bias, self.gate.bias])  # pyright: ignore[reportArgumentType]
        from_string = jnp.concatenate([self.memory(string), weight[:, : self.bits] @ string + bias])

        state = jnp.zeros_like(string, shape=self.hidden)
        for hop in range(self.hops):
            from_state = jnp.pad(weight[:, self.bits :] @ state, (self.memory_width, 0)) if hop else 0
            candidate, gate = jnp.split(from_string + from_state, 2)
            gate = jax.nn.sigmoid(gate)
            state = gate * jnp.tanh(candidate) + (1 - gate) * state
        return self.out(state)[0]
