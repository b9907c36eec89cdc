"""The energy of a string is how far it is from what the memory makes of it: not the paper's; it learns in minutes."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..layers import he_linear, keeping_size


class StringReconstruction(eqx.Module):
    """An auto-encoder with the memory in its middle, (seen + 1) · memory_width floats, as many as in `GatedRNN`:

        E(x) = ½ ‖x − x̂(x)‖²,        x̂(x) = C tanh(Σᵥ Bᵥ W Aᵥ x + b) + c

    A step down the writing loss teaches the memory W to repeat what is stored, as in the delta rule, and a step of 1
    down the energy is nearly x̂. What is stored has the least energy by construction, so that the gradient term of the
    writing loss can be left out (`gradient_term=False`). The memory sees the string in several views, as in `MixedRNN`.
    """

    memory: eqx.nn.Linear
    inward: eqx.nn.Linear
    outward: eqx.nn.Linear
    repeat: eqx.nn.Linear
    bits: int = eqx.field(static=True)
    seen: int = eqx.field(static=True)
    memory_width: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    views: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        bits: int = 128,
        seen: int | None = None,
        memory_width: int = 64,
        hidden: int = 512,
        views: int = 2,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 4)
        seen = bits if seen is None else seen
        self.memory = he_linear(seen, memory_width, key=keys[0])
        self.inward = keeping_size(bits, views * seen, key=keys[1])
        self.outward = keeping_size(views * memory_width, hidden, bias=0.1, key=keys[2])
        self.repeat = he_linear(hidden, bits, key=keys[3])
        self.bits, self.seen, self.memory_width = bits, seen, memory_width
        self.hidden, self.views = hidden, views

    @property
    def writable(self) -> tuple[eqx.nn.Linear]:
        return (self.memory,)

    def __call__(self, string: Float[Array, " bits"]) -> Float[Array, ""]:
        recalled = recall(self.memory, self.inward, self.outward, string)
        # No tanh at the end: with one, 64 strings came to a stand at 3.5 wrong bits (docs/log.md).
        return 0.5 * jnp.sum((string - self.repeat(recalled)) ** 2)


def recall(
    memory: eqx.nn.Linear, inward: eqx.nn.Linear, outward: eqx.nn.Linear, features: Float[Array, " features"]
) -> Float[Array, " hidden"]:
    """What hidden units are told by a memory that sees the features in several views: tanh(Σᵥ Bᵥ W Aᵥ f + b)."""
    views = inward(features).reshape(-1, memory.in_features)
    return jnp.tanh(outward(jnp.ravel(jax.vmap(memory)(views))))
