"""Learned step sizes: how far each write step and each read step goes."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

TERMS = ("energy", "gradient", "prior")


def _before_softplus(values: ArrayLike) -> Array:
    positive = jnp.asarray(values, dtype=float)
    return positive + jnp.log(-jnp.expm1(-positive))


class WriteRates(eqx.Module):
    """One rate for each write step, writable layer and term of the writing loss: η, ηα and ηβ.

    Softplus keeps them non-negative. Below 1 it is nearly an exponential, so that a step of the
    meta-optimizer changes a rate in proportion, be it 1e-5 or 0.5.
    """

    raw: Float[Array, "steps layers 3"]

    @classmethod
    def starting_at(cls, values: ArrayLike, *, steps: int) -> "WriteRates":
        """The same positive `values` [layers, 3] at every step."""
        return cls(_before_softplus(jnp.broadcast_to(values, (steps, *jnp.shape(values)))))

    def __call__(self) -> Float[Array, "steps layers 3"]:
        return jax.nn.softplus(self.raw)

    def scaled(self, factors: Float[Array, " 3"]) -> "WriteRates":
        """With the rates of each term so many times as large."""
        return WriteRates(_before_softplus(factors * self()))

    def in_parts(self, parts: int) -> "WriteRates":
        """Each step divided into so many of equal rates."""
        return WriteRates(_before_softplus(jnp.repeat(self() / parts, parts, axis=0)))


class Decreasing(eqx.Module):
    """A positive sequence that never increases: γ⁽ᵏ⁾ = γ⁽ᵏ⁻¹⁾ σ(η⁽ᵏ⁾), with γ⁽¹⁾ and the logits η learned."""

    raw_first: Float[Array, ""]
    logits: Float[Array, " steps_after_first"]

    @classmethod
    def starting_at(cls, first: ArrayLike, *, decay: float, steps: int) -> "Decreasing":
        return cls(_before_softplus(first), jnp.full(steps - 1, jax.scipy.special.logit(decay), dtype=float))

    def __call__(self) -> Float[Array, " steps"]:
        first = jax.nn.softplus(self.raw_first)[None]
        return jnp.concatenate([first, first * jnp.cumprod(jax.nn.sigmoid(self.logits))])

    def lasting(self, steps: int) -> "Decreasing":
        """The first so many, or the last repeated (σ(∞) = 1) until there are as many."""
        more = jnp.full(max(steps - 1 - len(self.logits), 0), jnp.inf, self.logits.dtype)
        return Decreasing(self.raw_first, jnp.concatenate([self.logits[: steps - 1], more]))


class ReadRates(eqx.Module):
    """Step sizes γ and momenta ψ of reading, one of each for every read step."""

    rates: Decreasing
    momenta: Decreasing

    @classmethod
    def starting_at(cls, *, rate: ArrayLike, momentum: float, decay: float, steps: int) -> "ReadRates":
        return cls(*(Decreasing.starting_at(first, decay=decay, steps=steps) for first in (rate, momentum)))

    def lasting(self, steps: int) -> "ReadRates":
        """For more or fewer read steps than were learned."""
        return ReadRates(self.rates.lasting(steps), self.momenta.lasting(steps))
