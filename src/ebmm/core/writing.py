"""Writing: store patterns in the writable layers by a few gradient steps on the writing loss.

    W(x, θ) = E(x; θ) + α ‖∇ₓE(x; θ)‖² + β ‖θ − θ̄‖²                  (the writing loss)
    θ⁽ᵗ⁺¹⁾ = θ⁽ᵗ⁾ − η⁽ᵗ⁾ mean over the patterns of ∇_θ W(xᵢ, θ⁽ᵗ⁾)   (the writing rule)

Every step, layer and term has a rate of its own, so η, ηα and ηβ are learned as three numbers.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..loops import PLAIN, Loop
from .energy import Energy, Layers, Where, with_layers, writable_layers
from .rates import WriteRates


def energy_gradient(energy: Energy, where: Where, layers: Layers, patterns: Float[Array, "n *pattern"]) -> Layers:
    """∇_θ of the mean energy alone."""

    def mean_energy(layers: Layers) -> Array:
        return jnp.mean(jax.vmap(with_layers(energy, where, layers))(patterns))

    return jax.grad(mean_energy)(layers)


def writing_gradients(
    energy: Energy, where: Where, layers: Layers, patterns: Float[Array, "n *pattern"]
) -> tuple[Layers, Layers]:
    """∇_θ of the mean energy and of the mean ‖∇ₓE‖², from one pass forward and back and its derivative.

    With v = ∇ₓE, the derivative of x ↦ ∇_θ E in direction v is ½ ∇_θ ‖∇ₓE‖². The pass that gives ∇_θ E gives v too, and
    is linearised where it stands: its derivative has to wait for v, and a `jvp` afterwards would go through the network
    once more, and again on the way back of meta-learning. The derivative is linear in v, so that steep slopes are taken
    in a shorter direction: v itself led to numbers of 55,000 inside a model of drawings, and half precision ends at
    65,504.
    """

    def mean_energy(layers: Layers, patterns: Array) -> Array:
        return jnp.mean(jax.vmap(with_layers(energy, where, layers))(patterns))

    both = partial(jax.grad(mean_energy, argnums=(0, 1)), layers)
    (of_energy, slopes), derivative = jax.linearize(both, patterns)
    slopes = patterns.shape[0] * slopes
    longest = jax.lax.stop_gradient(jnp.max(jnp.abs(slopes)))
    size = jnp.maximum(1, jnp.exp2(jnp.ceil(jnp.log2(longest))))  # a power of two: in float32 no digit changes
    half, _ = derivative(slopes / size)
    return of_energy, jax.tree.map(lambda h: 2 * size * h, half)


def write(
    energy: Energy,
    where: Where,
    rates: WriteRates,
    patterns: Float[Array, "n *pattern"],
    *,
    gradient_term: bool = True,
    loop: Loop = PLAIN,
) -> Layers:
    """The writable layers after all write steps on these patterns, θ⁽ᵀ⁾.

    Without the gradient term α is 0, whatever its rates are: the paper found the energy alone to be enough, and a step
    costs less. It is for energies whose minimum is at what they store by construction.
    """
    initial = writable_layers(energy, where)

    def step(layers: Layers, step_rates: Float[Array, "layers 3"]) -> tuple[Layers, None]:
        def descend(rate, now, start, of_energy, of_norm):
            change = rate[0] * of_energy + rate[1] * of_norm + rate[2] * 2 * (now - start)
            return (now - change).astype(now.dtype)

        if gradient_term:
            gradients = writing_gradients(energy, where, layers, patterns)
        else:
            of_energy = energy_gradient(energy, where, layers, patterns)
            gradients = of_energy, jax.tree.map(jnp.zeros_like, of_energy)
        by_layer = zip(step_rates, layers, initial, *gradients, strict=True)
        return tuple(jax.tree.map(lambda *a, r=rate: descend(r, *a), *trees) for rate, *trees in by_layer), None

    return loop.scan(step, initial, rates(), limited=True)[0]
