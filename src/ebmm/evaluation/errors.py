"""The error of a memory model over many random batches, with the yardsticks on the same batches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from ..data.episodes import Episodes
from ..interface import AbstractMemoryModel
from .metrics import METRICS, Metric
from .yardsticks import blanked, exact_bits, nearest_stored

Watch = Callable[[range], Iterable[int]]
"""Goes through a range and shows how far it is: a progress bar, or `iter`."""


@dataclass(frozen=True)
class Spread:
    """The mean over batches, and the 5- and 95-percentiles."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> "Spread":
        """Of one value a batch, or of any other values."""
        low, high = np.percentile(values, [5, 95])
        return cls(float(np.mean(values, dtype=np.float64)), float(low), float(high))


@dataclass(frozen=True)
class Errors:
    """One value a batch: the mean of the metric over its patterns."""

    nothing: np.ndarray
    """[batches] Of the queries as they are."""
    blanked: np.ndarray
    """[batches] Of the queries with the damage blanked, its place known."""
    exact: np.ndarray
    """[batches] Of an exact store, read by the nearest neighbour on undamaged dimensions."""
    exact_bits: np.ndarray
    """[batches] The bits that the exact store takes."""
    iterates: np.ndarray | None
    """[batches, read steps] Of the model; None where only the yardsticks were asked for."""
    not_finite: np.ndarray | None
    """[batches] The share of patterns whose read ended in something that is not finite."""
    kept: dict[str, np.ndarray]
    """Patterns, queries, masks and trajectories [batches, …], where they were asked for."""

    @property
    def read(self) -> np.ndarray:
        """[batches] Of the model's last read step."""
        if self.iterates is None:
            raise ValueError("Only the yardsticks were measured: there is no model's error.")
        return self.iterates[:, -1]


def measure_errors(
    model: AbstractMemoryModel | None,
    episodes: Episodes,
    *,
    key: PRNGKeyArray,
    metric: str = "hamming",
    batches: int = 1000,
    at_once: int | None = None,
    keep: bool = False,
    watch: Watch = iter,
) -> Errors:
    """Write random batches, damage them and read them back; without a model, the yardsticks alone.

    The first batches are the same however many there are. `at_once` are measured in one compiled call: 8 on an
    accelerator and 1 on a CPU if it is not given. `keep` returns every pattern as well.
    """
    if metric not in METRICS:
        raise ValueError(f"metric: got {metric!r}; expected {' or '.join(METRICS)}.")
    episodes = checked(model, episodes, batches)
    at_once = min(batches, (1 if jax.default_backend() == "cpu" else 8) if at_once is None else at_once)
    found: list[dict[str, np.ndarray]] = []
    for start in watch(range(0, batches, at_once)):
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(start, start + at_once))
        values = jax.device_get(_measure(model, episodes, keys, METRICS[metric], keep))
        values["exact_bits"] = np.array([exact_bits(batch, episodes.source.domain) for batch in values["patterns"]])
        if not keep:
            del values["patterns"]
        found.append({name: value[: batches - start] for name, value in values.items()})
    joined = {name: np.concatenate([values[name] for values in found]) for name in found[0]}
    yardsticks = {name: joined.pop(name) for name in ("nothing", "blanked", "exact", "exact_bits")}
    iterates, not_finite = (joined.pop(name, None) for name in ("iterates", "not_finite"))
    return Errors(**yardsticks, iterates=iterates, not_finite=not_finite, kept=joined)


@eqx.filter_jit
def _measure(
    model: AbstractMemoryModel | None, episodes: Episodes, keys: Key[Array, " batches"], metric: Metric, keep: bool
) -> dict[str, Any]:
    def mean(recalled: Float[Array, "n *pattern"], stored: Float[Array, "n *pattern"]) -> Float[Array, ""]:
        return jnp.mean(jax.vmap(lambda x, y: metric(x, y, episodes.source.domain))(recalled, stored))

    def of_one(model: AbstractMemoryModel | None, episodes: Episodes, key: PRNGKeyArray) -> dict[str, Any]:
        episode_key, write_key, read_key = jax.random.split(key, 3)
        stored, queries, undamaged = episodes.with_mask(episode_key)
        values = {
            "patterns": stored,
            "nothing": mean(queries, stored),
            "blanked": mean(blanked(queries, undamaged), stored),
            "exact": mean(nearest_stored(stored, queries, undamaged), stored),
        }
        if keep:
            values |= {"queries": queries, "undamaged": undamaged}
        if model is not None:
            state = model.write(stored, key=write_key)
            out = model.read(state, queries, known=undamaged if episodes.reveal else None, key=read_key)
            values["iterates"] = jax.vmap(mean, in_axes=(0, None))(out.trajectory, stored)
            broken = ~jnp.isfinite(out.patterns.reshape(len(stored), -1)).all(axis=1)
            values["not_finite"] = jnp.mean(broken, dtype=jnp.float32)
            if keep:
                values["trajectory"] = out.trajectory
        return values

    return eqx.filter_vmap(of_one, in_axes=(None, None, 0))(model, episodes, keys)


def checked(model: AbstractMemoryModel | None, episodes: Episodes, batches: int) -> Episodes:
    """The same episodes with the strength of the damage as an array, so that one compiled function serves every
    strength; refused if they do not fit the model or themselves.
    """
    if batches < 1:
        raise ValueError(f"batches: got {batches}; expected at least 1.")
    source = episodes.source
    if model is not None and (model.pattern_shape, model.domain) != (source.pattern_shape, source.domain):
        raise ValueError(
            f"the model stores patterns of shape {model.pattern_shape} with values in {model.domain}; these have "
            f"shape {source.pattern_shape} and values in {source.domain}."
        )
    jax.eval_shape(episodes.with_mask, jax.random.key(0))  # refuses what does not fit while sizes are numbers
    return eqx.tree_at(lambda e: e.damage, episodes, jax.tree.map(jnp.asarray, episodes.damage))
