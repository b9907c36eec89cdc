"""Gradients kept in bounds: the meta-gradient has cliffs where a learned rate makes writing or reading unstable."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree


@jax.custom_vjp
def limit_cotangent(tree: PyTree, limit: Float[Array, ""] | float) -> PyTree:
    """The same tree; on the way back its cotangent is scaled down to the norm `limit` where it is longer."""
    return tree


def _forward(tree: PyTree, limit: Float[Array, ""] | float) -> tuple[PyTree, Float[Array, ""] | float]:
    return tree, limit


def _backward(limit: Float[Array, ""] | float, cotangent: PyTree) -> tuple[PyTree, None]:
    scale = jnp.minimum(1.0, limit / jnp.maximum(optax.tree.norm(cotangent), 1e-30))
    return jax.tree.map(lambda c: (c * scale).astype(c.dtype), cotangent), None


limit_cotangent.defvjp(_forward, _backward)


def norms(gradients: PyTree) -> Float[Array, " n"]:
    """The norm of each gradient along the first axis."""
    return jax.vmap(optax.tree.norm)(gradients)


def mean_of_clipped(gradients: PyTree, *, times_median: float | None = 2.0, across: str | None = None) -> PyTree:
    """The mean over the first axis, each clipped at so many times the median norm, those not finite left out.

    `across` names the mesh axis that the first axis is split over, if it is: the mean is then over all devices.
    """
    lengths = norms(gradients)
    everywhere = lengths if across is None else jax.lax.all_gather(lengths, across, tiled=True)
    finite = jnp.isfinite(lengths)
    shares = finite / jnp.maximum(jnp.isfinite(everywhere).sum(), 1)
    if times_median is not None:
        limit = times_median * jnp.nanmedian(jnp.where(jnp.isfinite(everywhere), everywhere, jnp.nan))
        shares = shares * jnp.where(finite, jnp.minimum(1, limit / jnp.maximum(lengths, 1e-30)), 0)

    def mean(gradient: Array) -> Array:
        kept = jnp.where(finite.reshape(-1, *[1] * (gradient.ndim - 1)), gradient, 0)
        part = jnp.tensordot(shares.astype(gradient.dtype), kept, axes=1)
        return part if across is None else jax.lax.psum(part, across)

    return jax.tree.map(mean, gradients)
