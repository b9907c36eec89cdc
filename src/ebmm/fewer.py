"""Writing another number of patterns than a model was trained for.

The writing loss is a mean over the patterns, and the rates are learned for the number of training. With half as many,
each pattern's share in the gradient doubles, and a step writes it twice as hard as the model has learned: too hard,
where the learned steps are as long as they can be. So the rates of the terms that are means over the patterns, energy
and gradient, are multiplied by N / N₀: each pattern is written as hard as in training. The prior has no share in the
patterns, and its rate stays (`benchmarks/fewer_patterns.py` compares this with other ways). More patterns than in
training gain little from longer steps and are written as learned. A model that goes on learning with more of them
starts with steps that are longer by the square root, the best of several powers, if not by much (`docs/log.md`).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from .core.model import EBMM
from .interface import AbstractMemoryModel


def for_fewer(model: AbstractMemoryModel, patterns: int, trained_for: int | None) -> AbstractMemoryModel:
    """The same model, its write steps shortened where these are fewer patterns than it was trained for."""
    if trained_for is None or not 0 < patterns < trained_for:
        return model
    return with_steps(model, patterns / trained_for)


def to_learn_with(model: AbstractMemoryModel, patterns: int, trained_for: int | None) -> AbstractMemoryModel:
    """The same model to start from with so many patterns: shorter write steps for fewer, longer ones for more."""
    if trained_for is None or patterns <= trained_for:
        return for_fewer(model, patterns, trained_for)
    return with_steps(model, (patterns / trained_for) ** 0.5)


def with_steps(model: AbstractMemoryModel, times: float | Array) -> AbstractMemoryModel:
    """The same model, its write steps so many times as long."""
    if not isinstance(model, EBMM):
        return model
    rates = model.write_rates.scaled(jnp.array([times, times, 1.0]))
    return eqx.tree_at(lambda each: each.write_rates, model, rates)
