"""The plain meta-learning loop: enough for a small memory, and short enough to copy and change."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ..core.objective import reconstruction_loss
from ..data.binary import Episode
from ..interface import AbstractMemoryModel

Model = TypeVar("Model", bound=AbstractMemoryModel)


def meta_learning(
    model: Model,
    sample: Callable[[PRNGKeyArray], Episode],
    *,
    updates: int,
    key: PRNGKeyArray,
    episodes: int = 8,
    learning_rate: float = 3e-3,
) -> Iterator[tuple[Model, Float[Array, ""]]]:
    """Yield the model and its mean loss over fresh episodes after every update, so that a caller can watch or stop.

    AdamW with a short warm-up and a cosine decay; the gradient's norm is clipped, since the loss has cliffs
    where a learned rate makes reading or writing unstable.
    """
    schedule = optax.warmup_cosine_decay_schedule(0.0, learning_rate, max(updates // 30, 1), updates)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-6))

    def episode_loss(model: Model, key: PRNGKeyArray) -> Float[Array, ""]:
        patterns, queries, known = sample(key)
        return reconstruction_loss(model, patterns, queries, known=known)

    @eqx.filter_jit
    def update(model: Model, state: optax.OptState, key: PRNGKeyArray):
        keys = jax.random.split(key, episodes)
        losses, gradients = eqx.filter_vmap(eqx.filter_value_and_grad(episode_loss), in_axes=(None, 0))(model, keys)
        norms = jax.vmap(optax.tree.norm)(gradients)
        shares = jnp.minimum(1.0, 2.0 * jnp.median(norms) / norms) / episodes
        loss, gradient = jnp.mean(losses), jax.tree.map(lambda g: jnp.tensordot(shares, g, axes=1), gradients)
        changes, state = optimizer.update(gradient, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, changes), state, loss

    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    for update_key in jax.random.split(key, updates):
        model, state, loss = update(model, state, update_key)
        yield model, loss.block_until_ready()
