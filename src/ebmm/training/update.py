"""The compiled part of training: many updates in one call, with sampling and damage inside."""

import math
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from ..core.model import EBMM, STEP_SIZES
from ..core.precision import LOSS_SCALE, in_half_precision
from ..data.episodes import Episodes
from ..evaluation.metrics import METRICS
from ..fewer import to_learn_with
from ..gradients import mean_of_clipped, norms
from ..interface import AbstractMemoryModel, behind
from .parallel import EPISODES, split_over
from .settings import Settings
from .soap import scale_by_soap

STRIKES = 3  # exploded updates in a row: one may be due to its batch, so many are due to the model
LAG = 50  # updates between the states that can be stepped back to: 50 to 100 back the edge is not near any more
RECOVERY = 1.01  # by which the steps grow again with each update


class Calm(eqx.Module):
    """Where to step back to when the gradient explodes: two states of model, optimizer and average from before."""

    older: PyTree
    newer: PyTree
    age: Int[Array, ""]
    """Updates since the newer was taken."""
    strikes: Int[Array, ""]
    """Exploded updates in a row."""
    log_norm: Float[Array, ""]
    """The usual length of the gradient: a running mean of logarithms. NaN before the first update."""
    scale: Float[Array, ""]
    """Of the learning rate: halved with every step back, and recovering since."""


class Learner(eqx.Module):
    """All arrays that an update changes."""

    model: AbstractMemoryModel
    optimizer: PyTree
    average: PyTree
    """Of the model's arrays, or None."""
    calm: Calm | None

    @classmethod
    def of(cls, model: AbstractMemoryModel, settings: Settings) -> "Learner":
        arrays = eqx.filter(model, eqx.is_inexact_array)
        average = None if settings.average is None else arrays
        learner = cls(model, transformation(settings).init(arrays), average, None)
        if settings.step_back is None:
            return learner
        here = _arrays(learner)
        none = jnp.array(0, jnp.int32)
        calm = Calm(here, here, none, none, jnp.array(jnp.nan, float), jnp.array(1.0, float))
        return eqx.tree_at(lambda each: each.calm, learner, calm, is_leaf=lambda leaf: leaf is None)

    def to_learn_with(self, patterns: int, before: int) -> "Learner":
        """For another number of patterns in an episode: the model, its average, and what to step back to."""
        model, average, calm = to_learn_with(self.model, patterns, before), self.average, self.calm
        if average is not None:
            average = to_learn_with(average, patterns, before)
        learner = Learner(model, self.optimizer, average, None)
        if calm is not None:
            here = _arrays(learner)
            calm = replace(calm, older=here, newer=here, age=jnp.zeros_like(calm.age))
        return Learner(model, self.optimizer, average, calm)

    @property
    def best(self) -> AbstractMemoryModel:
        """The model to evaluate and to keep."""
        if self.average is None:
            return self.model
        return eqx.combine(self.average, eqx.filter(self.model, eqx.is_inexact_array, inverse=True))


class Report(NamedTuple):
    """What is told of each update."""

    loss: Float[Array, " updates"]
    error: Float[Array, " updates"]
    norm: Float[Array, " updates"]
    """The median norm of the episodes' gradients, or of their groups'."""
    dropped: Float[Array, " updates"]
    """How many episodes had a gradient that is not finite."""
    stepped_back: Float[Array, " updates"]
    """1 where the gradient had exploded several times in a row and an older state was gone back to."""
    skipped: Float[Array, " updates"]
    """1 where the gradient had exploded and nothing was changed."""


def transformation(settings: Settings) -> optax.GradientTransformation:
    """The optimizer without the learning rate, which is an argument of each update."""
    clip = optax.identity() if settings.clip is None else optax.clip_by_global_norm(settings.clip)
    decay = optax.add_decayed_weights(settings.weight_decay, mask=are_weights)
    if settings.optimizer == "adamw":
        return optax.chain(clip, optax.scale_by_adam(), decay)
    if settings.optimizer == "soap":
        return optax.chain(clip, scale_by_soap(are_matrices), decay)
    muon = optax.contrib.muon(1.0, consistent_rms=0.2, muon_weight_dimension_numbers=matrices)
    return optax.chain(clip, muon, optax.scale(-1.0), decay)


def matrices(parameters: PyTree) -> PyTree:
    """Which parameters Muon takes as matrices, and how: dense layers and convolutions, but no step sizes."""
    dense, convolution = (
        optax.contrib.MuonDimensionNumbers(reduction_axis=inputs, output_axis=outputs)
        for inputs, outputs in ((1, 0), ((0, 1, 2), 3))
    )

    def axes(path: Any, array: Array) -> optax.contrib.MuonDimensionNumbers | None:
        if getattr(path[0], "name", None) in STEP_SIZES or array.ndim not in (2, 4):
            return None
        outputs = array.shape[0] if array.ndim == 2 else array.shape[-1]
        is_vector = 1 in (outputs, array.size // outputs)
        return None if is_vector else dense if array.ndim == 2 else convolution

    return jax.tree_util.tree_map_with_path(axes, parameters)


def are_weights(parameters: PyTree) -> PyTree:
    """Which parameters decay: what multiplies an input, and neither biases and scales nor step sizes."""

    def is_weight(path: Any, array: Array) -> bool:
        return array.ndim > 1 and getattr(path[0], "name", None) not in STEP_SIZES

    return jax.tree_util.tree_map_with_path(is_weight, parameters)


def are_matrices(parameters: PyTree) -> PyTree:
    """Where `matrices` has something to say."""
    return jax.tree.map(lambda _, axes: axes is not None, parameters, matrices(parameters))


def run_updates(
    learner: Learner, sample: Episodes, episodes: int, metric: str, settings: Settings, *rest: Any
) -> tuple[Learner, Report]:
    """`updates` with the same arguments, compiled."""
    return program(settings)(learner, sample, episodes, metric, settings, *rest)


def program(settings: Settings) -> Any:
    """The compiled `updates`, which can also be lowered; its type does not say so."""
    return _program(tuple(compiler_options(settings).items()))


@cache
def _program(options: tuple[tuple[str, bool], ...]) -> Any:
    given: Any = {"compiler_options": dict(options)}
    return eqx.filter_jit(updates, **given)


def compiler_options(settings: Settings) -> dict[str, bool]:
    return {} if settings.triton or jax.default_backend() != "gpu" else {"xla_gpu_enable_triton_gemm": False}


def updates(
    learner: Learner,
    sample: Episodes,
    episodes: int,
    metric: str,
    settings: Settings,
    key: PRNGKeyArray,
    indices: Int[Array | np.ndarray, " updates"],
    rates: Float[Array | np.ndarray, " updates"],
    mesh: Mesh | None = None,
) -> tuple[Learner, Report]:
    """One update for each index and learning rate; the randomness of an update depends on its index alone.

    With a mesh, the episodes are split over its devices and everything else is the same on all of them.
    """
    arrays, static = eqx.partition(learner, eqx.is_array)

    def step(arrays: PyTree, index_and_rate: tuple[Array, Array]) -> tuple[PyTree, Report]:
        index, rate = index_and_rate
        keys = jax.random.split(jax.random.fold_in(key, index), episodes)
        learner, report = one_update(eqx.combine(arrays, static), sample, keys, rate, metric, settings, mesh)
        return eqx.filter(learner, eqx.is_array), report

    arrays, reports = jax.lax.scan(step, arrays, (jnp.asarray(indices), jnp.asarray(rates)))
    return eqx.combine(arrays, static), reports


def one_update(
    learner: Learner,
    sample: Episodes,
    keys: Key[Array, " episodes"],
    rate: Array,
    metric: str,
    settings: Settings,
    mesh: Mesh | None,
) -> tuple[Learner, Report]:
    parameters, rest = eqx.partition(learner.model, eqx.is_inexact_array)

    def of_episodes(parameters: PyTree, sample: Episodes, keys: Key[Array, " episodes"]) -> tuple[Any, ...]:
        def of_group(parameters: PyTree, keys: Key[Array, " group"]) -> tuple[Array, tuple[Array, Array]]:
            model = in_fastest_form(eqx.combine(parameters, rest), settings)
            losses, errors = jax.vmap(lambda key: episode_objective(model, sample, metric, key, settings.last_steps))(
                keys
            )
            # A sum, so that what is clipped on the way back is an episode's, whatever the group.
            return scale * jnp.sum(losses), (losses, errors)

        size = math.gcd(settings.group, len(keys))
        scale = LOSS_SCALE if isinstance(learner.model, EBMM) and settings.precision == "float16" else 1.0
        value_and_gradient = jax.value_and_grad(of_group, has_aux=True)
        if size == len(keys):  # `vmap` over one group would take nearly twice as long to trace
            (_, (losses, errors)), gradient = value_and_gradient(parameters, keys)
            gradients = jax.tree.map(lambda array: array[None], gradient)
        else:
            each_group = jax.vmap(value_and_gradient, in_axes=(None, 0))
            (_, (losses, errors)), gradients = each_group(parameters, keys.reshape(-1, size))
        gradients = jax.tree.map(lambda array: array / (scale * size), gradients)
        across = None if mesh is None else EPISODES
        mean = mean_of_clipped(gradients, times_median=settings.episode_clip, across=across)
        return losses.ravel(), errors.ravel(), jnp.repeat(norms(gradients), size), mean

    losses, errors, lengths, gradient = split_over(mesh, of_episodes)(parameters, sample, keys)
    finite = jnp.isfinite(lengths)
    norm = jnp.nanmedian(jnp.where(finite, lengths, jnp.nan))
    if learner.calm is not None:
        rate = rate * learner.calm.scale
    changes, optimizer = transformation(settings).update(gradient, learner.optimizer, parameters)
    changed = jax.tree.map(
        lambda p, c, factor: p - (rate * factor * c).astype(p.dtype), parameters, changes, factors(parameters, settings)
    )
    updated = Learner(eqx.combine(changed, rest), optimizer, averaged(learner.average, changed, settings), learner.calm)
    some = jnp.any(finite)  # without a single finite episode nothing changes
    kept = jax.tree.map(lambda new, old: jnp.where(some, new, old), *map(_arrays, (updated, learner)))
    updated = eqx.combine(kept, updated)
    back = skipped = jnp.array(False)
    if settings.step_back is not None:
        updated, back, skipped = stepped_back(learner, updated, norm, settings.step_back)
    report = Report(
        loss=jnp.nanmean(jnp.where(finite, losses, jnp.nan)),
        error=jnp.nanmean(jnp.where(finite, errors, jnp.nan)),
        norm=norm,
        dropped=jnp.sum(~finite).astype(jnp.float32),
        stepped_back=back.astype(jnp.float32),
        skipped=skipped.astype(jnp.float32),
    )
    return updated, report


def stepped_back(
    before: Learner, updated: Learner, norm: Float[Array, ""], limit: float
) -> tuple[Learner, Bool[Array, ""], Bool[Array, ""]]:
    """The updated learner; where the gradient is `limit` times as long as usual, the one before; and the older of the
    kept states when that happens several times in a row. Then whether it went back, and whether it stood still.

    A single long gradient may be due to its batch. A model whose learned rates are past the edge of stability has
    them on every batch, and no step that they point to leads back: it is tried again from well before the edge, with
    other batches and smaller steps. The usual length follows slowly even then, so that a lasting change of scale is
    not taken for an explosion.
    """
    calm = before.calm
    assert calm is not None
    usual = jnp.where(jnp.isnan(calm.log_norm), jnp.log(norm), calm.log_norm)
    excess = jnp.log(norm) - usual
    exploded = ~(excess < jnp.log(limit)) & ~jnp.isnan(calm.log_norm)
    log_norm = usual + 0.01 * jnp.where(exploded, jnp.log(limit), excess)
    back = exploded & (calm.strikes + 1 >= STRIKES)
    is_due = ~exploded & (calm.age + 1 >= LAG)

    def chosen(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
        return jax.tree.map(lambda y, n: jnp.where(condition, y, n), yes, no)

    bare, here = (eqx.tree_at(lambda each: each.calm, learner, None) for learner in (updated, before))
    now_calm = Calm(
        older=chosen(is_due, calm.newer, calm.older),
        newer=chosen(back, calm.older, chosen(is_due, _arrays(here), calm.newer)),
        age=jnp.where(back | is_due, 0, calm.age + 1),
        strikes=jnp.where(exploded & ~back, calm.strikes + 1, 0),
        log_norm=jnp.where(jnp.isnan(log_norm), calm.log_norm, log_norm),
        scale=jnp.where(back, 0.5 * calm.scale, jnp.minimum(1.0, RECOVERY * calm.scale)),
    )
    kept = chosen(back, calm.older, chosen(exploded, _arrays(here), _arrays(bare)))
    learner = eqx.tree_at(lambda each: each.calm, eqx.combine(kept, bare), now_calm, is_leaf=lambda leaf: leaf is None)
    return learner, back, exploded & ~back


def in_fastest_form(model: AbstractMemoryModel, settings: Settings) -> AbstractMemoryModel:
    """The same model with its energy in the form that it is trained fastest in, if it has one, in this precision."""
    if not isinstance(model, EBMM):
        return model
    energy: Any = model.energy
    if hasattr(energy, "spread"):
        model = replace(model, energy=energy.spread())
    return in_half_precision(model) if settings.precision == "float16" else model


def episode_objective(
    model: AbstractMemoryModel, sample: Episodes, metric: str, key: PRNGKeyArray, last_steps: int | None = None
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The loss of one episode, and the mean error of what is read in the end."""
    sample_key, model_key = jax.random.split(key)
    patterns, queries, known = sample(sample_key)
    loss, recalled = model.loss(patterns, queries, known=known, key=model_key, last_steps=last_steps)
    errors = jax.vmap(lambda x, y: METRICS[metric](x, y, sample.source.domain))(recalled, behind(queries, patterns))
    return loss, jnp.mean(errors)


def _arrays(learner: Learner) -> PyTree:
    return eqx.filter(learner, eqx.is_array)


def factors(parameters: PyTree, settings: Settings) -> PyTree:
    """By how much faster than the weights each parameter moves."""

    def factor(path: Any, _: Array) -> float:
        return settings.step_size_factor if getattr(path[0], "name", None) in STEP_SIZES else 1.0

    return jax.tree_util.tree_map_with_path(factor, parameters)


def averaged(average: PyTree, parameters: PyTree, settings: Settings) -> PyTree:
    if settings.average is None:
        return None
    decay = settings.average
    return jax.tree.map(lambda a, p: decay * a + (1 - decay) * p, average, parameters)
