"""Reading: recover a pattern from a damaged copy by a few steps down the energy."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..interface import Domain
from ..loops import PLAIN, Loop
from .energy import Energy
from .rates import ReadRates


def read(
    energy: Energy,
    rates: ReadRates,
    query: Float[Array, "*pattern"],
    *,
    domain: Domain = None,
    known: Bool[Array, "*pattern"] | None = None,
    loop: Loop = PLAIN,
) -> tuple[Float[Array, "steps *pattern"], Float[Array, " steps_and_query"]]:
    """The iterates x⁽¹⁾ … x⁽ᴷ⁾ of one query, and the energies of the query and of each of them.

        x̂⁽ᵏ⁾ = project(x⁽ᵏ⁻¹⁾ + ψ⁽ᵏ⁾ v⁽ᵏ⁻¹⁾)
        v⁽ᵏ⁾ = ψ⁽ᵏ⁾ v⁽ᵏ⁻¹⁾ − γ⁽ᵏ⁾ ∇E(x̂⁽ᵏ⁾)
        x⁽ᵏ⁾ = project(x⁽ᵏ⁻¹⁾ + v⁽ᵏ⁾)

    The paper prints x⁽ᵏ⁾ = project(v⁽ᵏ⁾), a misprint: v is a velocity. `project` also sets the dimensions
    marked in `known` to the query's values, at x̂ and at x alike, so that their velocity has no effect.
    """
    gradient = jax.grad(energy)

    def project(pattern: Array) -> Array:
        inside = pattern if domain is None else jnp.clip(pattern, *domain)
        return inside if known is None else jnp.where(known, query, inside)

    def step(carry: tuple[Array, Array], rate_and_momentum: tuple[Array, Array]):
        pattern, velocity = carry
        rate, momentum = rate_and_momentum
        ahead = project(pattern + momentum * velocity)
        velocity = (momentum * velocity - rate * gradient(ahead)).astype(query.dtype)
        pattern = project(pattern + velocity)
        return (pattern, velocity), pattern

    start = (query, jnp.zeros_like(query))
    _, trajectory = loop.scan(step, start, (rates.rates(), rates.momenta()))
    # Outside the loop, so that a compiled caller who ignores the energies does not pay for them.
    return trajectory, jax.vmap(energy)(jnp.concatenate([query[None], trajectory]))
