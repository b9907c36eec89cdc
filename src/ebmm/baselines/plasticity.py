"""Differentiable plasticity: a recurrent layer whose connections grow with what fires together."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from .codec import AbstractCodec, clamp, codec_for, from_logits, hide_damage

Trace = Float[Array, "units units"]


def hebb(trace: Trace, activity: Float[Array, " units"], rate: Float[Array, ""]) -> Trace:
    """Forget a little of everything, and add what fires together."""
    return (1 - rate) * trace + rate * jnp.outer(activity, activity)


def oja(trace: Trace, activity: Float[Array, " units"], rate: Float[Array, ""]) -> Trace:
    """Forget only where the receiving unit (the row) is active; for activities of ±1 this is Hebb's rule."""
    return trace + rate * activity[:, None] * (activity[None, :] - activity[:, None] * trace)


RULES = {"hebb": hebb, "oja": oja}


class Plasticity(AbstractMemoryModel):
    """A fully connected layer with the weights w + α ∘ trace (Miconi and others 2018).

    The fixed weights w, the plasticity α and the rate of the trace η are learned; the trace is the memory. Writing
    shows the patterns one after the other, all of them `presentations` times, with every unit held at its value: so
    Hebb's trace is symmetric, and each of its pairs counts once, 128 · 129 / 2 = 8,256 for strings of 128 bits. Oja's
    is not, and counts in full. Reading lets the layer run for `steps` from the query, with known units held.

    With `plasticity="shared"`, one α for all connections, these are the fast weights of Ba and others (2016).

    Images are written as codes of `code` units, squashed to (−1, 1).
    """

    codec: AbstractCodec
    weights: Float[Array, "units units"]
    bias: Float[Array, " units"]
    drive: Float[Array, ""]
    plastic: Float[Array, "*units_units"]
    rate_logit: Float[Array, ""]
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)
    rule: str = eqx.field(static=True)
    plasticity: str = eqx.field(static=True)
    presentations: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    code: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    def __init__(
        self,
        pattern_shape: tuple[int, ...],
        *,
        domain: Domain = (0.0, 1.0),
        rule: str = "hebb",
        plasticity: str = "each",
        presentations: int = 1,
        steps: int = 5,
        code: int = 128,
        channels: int = 32,
        key: PRNGKeyArray,
    ):
        if rule not in RULES or plasticity not in ("each", "shared"):
            raise ValueError(
                f"got rule {rule!r} and plasticity {plasticity!r}; expected {' or '.join(RULES)}, and each or shared."
            )
        if min(presentations, steps) < 1:
            raise ValueError(f"got {presentations} presentations and {steps} steps; expected at least one of each.")
        codec_key, weight_key = jax.random.split(key)
        self.pattern_shape, self.domain = tuple(pattern_shape), as_domain(domain)
        self.codec = codec_for(self.pattern_shape, self.domain, code=code, channels=channels, key=codec_key)
        units = self.codec.code
        first_rate = 0.005  # 64 patterns later three quarters of a trace are left
        self.weights = 0.01 * jax.random.normal(weight_key, (units, units)) / units**0.5
        self.bias = jnp.zeros(units)
        self.drive = jnp.ones(())
        # The first reads are those of a Hopfield network with soft thresholds: η α = 2 / units, whatever the rate.
        self.plastic = (2 / (first_rate * units)) * jnp.ones((units, units) if plasticity == "each" else ())
        self.rate_logit = jnp.array(math.log(first_rate / (1 - first_rate)), float)
        self.rule, self.plasticity, self.presentations, self.steps = rule, plasticity, presentations, steps
        self.code, self.channels = code, channels

    @property
    def memory_size(self) -> int:
        units = self.codec.code
        return units * (units + 1) // 2 if self.rule == "hebb" else units**2

    @property
    def initial_state(self) -> Float[Array, " floats"]:
        return jnp.zeros(self.memory_size)

    def write(
        self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, " floats"]:
        activities = jax.vmap(self._activity)(patterns)
        rate, rule = jax.nn.sigmoid(self.rate_logit), RULES[self.rule]

        def show(trace: Trace, activity: Array) -> tuple[Trace, None]:
            return rule(trace, activity, rate), None

        shown = jnp.tile(activities, (self.presentations, 1))
        trace, _ = jax.lax.scan(show, jnp.zeros_like(self.weights), shown)
        return trace[np.triu_indices(len(trace))] if self.rule == "hebb" else jnp.ravel(trace)

    def read(
        self,
        state: Float[Array, " floats"],
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        connections = self.weights + self.plastic * self.trace(state)

        def read_one(query: Array, known: Array | None) -> Array:
            start = self._activity(hide_damage(query, known, self.domain))
            held = known if known is not None and known.shape == start.shape else None  # a unit is a bit, or not

            def step(activity: Array, _: None) -> tuple[Array, Array]:
                total = connections @ activity + self.bias + self.drive * start
                # Twice, since the sigmoid that follows is (1 + tanh) / 2 of half its argument.
                values = from_logits(self.codec.decode_logits(2 * total), self.domain)
                return clamp(jnp.tanh(total), start, held), clamp(values, query, known)

            return jax.lax.scan(step, start, length=self.steps)[1]

        trajectory = jax.vmap(read_one, out_axes=1)(queries, known)
        return Readout(trajectory[-1], trajectory, None)

    def trace(self, state: Float[Array, " floats"]) -> Trace:
        """The memory as a matrix."""
        units = self.codec.code
        if self.rule != "hebb":
            return state.reshape(units, units)
        upper = jnp.zeros((units, units)).at[np.triu_indices(units)].set(state)
        return upper + jnp.triu(upper, 1).T

    def _activity(self, pattern: Float[Array, "*pattern"]) -> Float[Array, " units"]:
        code = self.codec.encode(pattern)
        is_bounded = len(self.pattern_shape) == 1 and self.domain is not None  # as the bits of a string are
        return code if is_bounded else jnp.tanh(code)

    def energies(self, state: Float[Array, " floats"], patterns: Float[Array, "n *pattern"]) -> None:
        return None
