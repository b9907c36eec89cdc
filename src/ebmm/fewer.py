"""Writing another number of patterns than a model was trained for.

The writing loss is a mean over the patterns, and the rates are learned for the number of training. With half as many,
each pattern's share in the gradient doubles, and a step writes it twice as hard as the model has learned: too hard,
where the learned steps are as long as they can be. So the rates of the terms that are means over the patterns, energy
and gradient, are multiplied by N / N₀: each pattern is written as hard as in training. The prior has no share in the
patterns, and its rate stays (`benchmarks/fewer_patterns.py` compares this with other ways). More patterns than in
training gain nothing from longer steps and are written as learned; but a model that goes on learning with more of them,
at the next stage of a curriculum, starts from there with longer steps (`training.trainer`).
"""

import equinox as eqx
import jax.numpy as jnp

from .core.model import EBMM
from .interface import AbstractMemoryModel


def for_fewer(model: AbstractMemoryModel, patterns: int, trained_for: int | None) -> AbstractMemoryModel:
    """The same model, its write steps shortened where these are fewer patterns than it was trained for."""
    if trained_for is None or not 0 < patterns < trained_for:
        return model
    return rescaled(model, patterns / trained_for)


def rescaled(model: AbstractMemoryModel, times: float) -> AbstractMemoryModel:
    """The same model, which writes so many times as many patterns each as hard as before."""
    if not isinstance(model, EBMM):
        return model
    rates = model.write_rates.scaled(jnp.array([times, times, 1.0]))
    return eqx.tree_at(lambda each: each.write_rates, model, rates)
