"""The plain meta-learning loop: enough for a small memory, and short enough to copy and change."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from ..core.objective import reconstruction_loss
from ..data.episodes import Episode
from ..gradients import mean_of_clipped
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

    AdamW with a short warm-up and a cosine decay. The loss has cliffs where a learned rate makes reading or
    writing unstable: the gradient of each episode is clipped at twice the median norm of all, and one that
    is not finite is left out.
    """
    if updates < 1 or episodes < 1:
        raise ValueError(f"got {updates} updates of {episodes} episodes; expected at least one of each.")
    schedule = optax.warmup_cosine_decay_schedule(0.0, learning_rate, max(updates // 30, 1), max(updates, 2))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-6))

    def episode_loss(model: Model, sample: Callable[[PRNGKeyArray], Episode], key: PRNGKeyArray) -> Float[Array, ""]:
        sample_key, model_key = jax.random.split(key)
        patterns, queries, known = sample(sample_key)
        return reconstruction_loss(model, patterns, queries, known=known, key=model_key)

    @eqx.filter_jit  # `sample` is an argument, so that its data is not compiled in
    def update(model: Model, state: optax.OptState, sample: Callable[[PRNGKeyArray], Episode], key: PRNGKeyArray):
        gradient_of = eqx.filter_vmap(eqx.filter_value_and_grad(episode_loss), in_axes=(None, None, 0))
        losses, gradients = gradient_of(model, sample, jax.random.split(key, episodes))
        gradient = mean_of_clipped(gradients)
        changes, state = optimizer.update(gradient, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, changes), state, jnp.mean(losses)

    def learn(model: Model) -> Iterator[tuple[Model, Float[Array, ""]]]:
        state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
        for update_key in jax.random.split(key, updates):
            model, state, loss = update(model, state, sample, update_key)
            yield model, loss.block_until_ready()

    return learn(model)
