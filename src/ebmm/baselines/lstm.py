"""The LSTM: patterns are read one after the other, and the memory is what the network keeps of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from ..layers import he_linear
from .codec import AbstractCodec, clamp, codec_for, hide_damage

Hidden = tuple[Float[Array, " hidden"], Float[Array, " hidden"]]
"""The output and the cells."""


def activate(gates: Float[Array, " four_hidden"], cells: Float[Array, " hidden"]) -> Hidden:
    """The next output and cells: what is forgotten, what is let in, and what is shown (Gers and others 1999)."""
    let_in, keep, candidate, show = jnp.split(gates, 4)
    cells = jax.nn.sigmoid(keep) * cells + jax.nn.sigmoid(let_in) * jnp.tanh(candidate)
    return jax.nn.sigmoid(show) * jnp.tanh(cells), cells


@jax.custom_vjp
def unroll(
    recurrent: Float[Array, "four_hidden hidden"], drives: Float[Array, "n four_hidden"], state: Hidden
) -> Hidden:
    """The state after all inputs, whose share of the gates is `drives`.

    Its gradient is written out, since that of a plain loop adds a matrix of the size of the weights for every
    pattern; here there is one product at the end. With 4,128 units this is most of the time of training.
    """
    return _forward(recurrent, drives, state)[0]


def _forward(recurrent: Array, drives: Array, state: Hidden) -> tuple[Hidden, tuple[Array, Array, Array, Array]]:
    def step(state: Hidden, drive: Array) -> tuple[Hidden, tuple[Array, Array, Array]]:
        gates = drive + recurrent @ state[0]
        return activate(gates, state[1]), (gates, *state)

    state, (gates, outputs, cells) = jax.lax.scan(step, state, drives)
    return state, (recurrent, gates, outputs, cells)


def _backward(saved: tuple[Array, Array, Array, Array], cotangent: Hidden) -> tuple[Array, Array, Hidden]:
    recurrent, gates, outputs, cells = saved

    def step(cotangent: Hidden, gates_and_cells: tuple[Array, Array]) -> tuple[Hidden, Array]:
        of_gates, of_cells = jax.vjp(activate, *gates_and_cells)[1](cotangent)
        return (recurrent.T @ of_gates, of_cells), of_gates

    of_state, of_gates = jax.lax.scan(step, cotangent, (gates, cells), reverse=True)
    return of_gates.T @ outputs, of_gates, of_state


unroll.defvjp(_forward, _backward)


class LSTM(AbstractMemoryModel):
    """Memory is the output and the cells after the last pattern: 2 · hidden floats, 2 · 4,128 = 8,256 by default.

    A query is then shown `looks` times from that state, which is restored for the next query, and the answer is
    decoded from the output after each look. An input of 1 tells a query from a pattern to remember.

    The first weights decide whether it learns more than the mean of the patterns. Cells start out to forget little,
    and the gates that let in and show start out equal: each pattern enters a random half of the cells, and its
    damaged copy opens about the same half.
    """

    codec: AbstractCodec
    inputs: eqx.nn.Linear
    recurrent: Float[Array, "four_hidden hidden"]
    answer: eqx.nn.Linear
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    looks: int = eqx.field(static=True)
    code: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    def __init__(
        self,
        pattern_shape: tuple[int, ...],
        *,
        domain: Domain = (0.0, 1.0),
        hidden: int = 4128,
        looks: int = 1,
        code: int = 256,
        channels: int = 32,
        key: PRNGKeyArray,
    ):
        if min(hidden, looks) < 1:
            raise ValueError(f"got {hidden} hidden units and {looks} looks; expected at least one of each.")
        keys = jax.random.split(key, 4)
        self.pattern_shape, self.domain = tuple(pattern_shape), as_domain(domain)
        self.codec = codec_for(self.pattern_shape, self.domain, code=code, channels=channels, key=keys[0])
        inputs = he_linear(self.codec.code + 1, 4 * hidden, key=keys[1])
        gate, keep, candidate, _ = jnp.split(inputs.weight, 4)
        # A query is let in nowhere (σ(−5) < 0.01), and a cell keeps σ(5) > 0.99 from one pattern to the next. The
        # candidates are small, so that the sum of 64 of them does not saturate.
        weight = jnp.concatenate([gate.at[:, -1].set(-5.0), 0.0 * keep, 0.2 * candidate, gate])
        bias = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(5.0)
        self.inputs = eqx.tree_at(lambda linear: (linear.weight, linear.bias), inputs, (weight, bias))
        self.recurrent = 0.1 * jax.random.normal(keys[2], (4 * hidden, hidden)) / hidden**0.5
        self.answer = he_linear(hidden, self.codec.code, key=keys[3])
        self.hidden, self.looks, self.code, self.channels = hidden, looks, code, channels

    @property
    def memory_size(self) -> int:
        return 2 * self.hidden

    @property
    def initial_state(self) -> Hidden:
        return jnp.zeros(self.hidden), jnp.zeros(self.hidden)

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Hidden:
        drives = jax.vmap(lambda pattern: self.inputs(jnp.append(self.codec.encode(pattern), 0.0)))(patterns)
        return unroll(self.recurrent, drives, self.initial_state)

    def read(
        self,
        state: Hidden,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        def read_one(query: Array, known: Array | None) -> Array:
            drive = self.inputs(jnp.append(self.codec.encode(hide_damage(query, known, self.domain)), 1.0))

            def look(state: Hidden, _: None) -> tuple[Hidden, Array]:
                state = activate(drive + self.recurrent @ state[0], state[1])
                return state, clamp(self.codec.decode(self.answer(state[0])), query, known)

            return jax.lax.scan(look, state, length=self.looks)[1]

        trajectory = jax.vmap(read_one, out_axes=1)(queries, known)
        return Readout(trajectory[-1], trajectory, None)

    def energies(self, state: Hidden, patterns: Float[Array, "n *pattern"]) -> None:
        return None
