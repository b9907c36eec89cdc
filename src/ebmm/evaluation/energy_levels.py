"""How the energy of what is stored differs from the energy of everything else."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..data.episodes import Episodes
from ..data.images import AbstractPatterns
from ..interface import AbstractMemoryModel
from .errors import Watch, checked


def energy_levels(
    model: AbstractMemoryModel,
    episodes: Episodes,
    *,
    key: PRNGKeyArray,
    unlike: Mapping[str, AbstractPatterns] | None = None,
    batches: int = 100,
    watch: Watch = iter,
) -> dict[str, np.ma.MaskedArray]:
    """The energies [batches, patterns] in a memory that holds one batch of: what it holds (`memories`), damaged copies
    of it (`damaged memories`), what it recalls from those (`recalled`), other patterns of the same kind
    (`non-memories`), and patterns of the kinds in `unlike`. A non-memory that happens to be stored as well is masked.
    """
    episodes = checked(model, episodes, batches)
    kinds: dict[str, AbstractPatterns] = jax.device_put(dict(unlike or {}))
    for name, source in kinds.items():
        if source.pattern_shape != model.pattern_shape:
            raise ValueError(f"{name}: got patterns of shape {source.pattern_shape}; expected {model.pattern_shape}.")
    found = [
        jax.device_get(_levels(model, episodes, kinds, jax.random.fold_in(key, index)))
        for index in watch(range(batches))
    ]
    names = ("memories", "damaged memories", "recalled", "non-memories", *kinds)
    levels = {name: np.ma.asarray(np.stack([values[name] for values in found])) for name in names}
    levels["non-memories"].mask = np.stack([values["stored as well"] for values in found])
    return levels


@eqx.filter_jit
def _levels(
    model: AbstractMemoryModel, episodes: Episodes, unlike: dict[str, AbstractPatterns], key: PRNGKeyArray
) -> dict[str, Any]:
    episode_key, write_key, read_key, other_key, unlike_key = jax.random.split(key, 5)
    stored, queries, known = episodes(episode_key)
    state = model.write(stored, key=write_key)

    def energies(patterns: Array) -> Float[Array, " n"]:
        values = model.energies(state, patterns)
        if values is None:
            raise ValueError(f"{type(model).__name__} defines no energy.")
        return values

    others = episodes.source.draw(episodes.patterns, key=other_key)
    axes = tuple(range(2, stored.ndim + 1))
    is_stored = jnp.any(jnp.all(others[:, None] == stored[None], axis=axes), axis=1)
    levels = {
        "memories": energies(stored),
        "damaged memories": energies(queries),
        "recalled": energies(model.read(state, queries, known=known, key=read_key).patterns),
        "non-memories": energies(others),
        "stored as well": is_stored,
    }
    for index, (name, source) in enumerate(unlike.items()):
        levels[name] = energies(source.draw(episodes.patterns, key=jax.random.fold_in(unlike_key, index)))
    return levels


def told_apart(memories: np.ma.MaskedArray, others: np.ma.MaskedArray) -> float | None:
    """The chance that a random memory has a lower energy than a random other in the same batch: 0.5 is guessing.

    An energy that is no number is not lower. None where there is nothing to compare.
    """
    own, other = (np.asarray(values.data) for values in (memories, others))
    lower = (own[:, :, None] < other[:, None, :]) + 0.5 * (own[:, :, None] == other[:, None, :])
    valid = np.broadcast_to(~np.ma.getmaskarray(others)[:, None, :], lower.shape)
    return float(lower[valid].mean()) if valid.any() else None
