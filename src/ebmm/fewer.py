"""Writing fewer patterns than a model was trained for.

The writing loss is a mean over the patterns, and the rates are learned for the number of training. With half as many,
each pattern's share in the gradient doubles, and a step writes it twice as hard as the model has learned: too hard,
where the learned steps are as long as they can be. So the steps are shortened with the number of patterns:

    η  · N / N₀         of the energy: each pattern is written as hard as in training
    ηα · (N / N₀)^1.5   of the gradient's norm
    ηβ                  of the prior, which has no share in the patterns

The first follows from the mean, the exponent of the second was found by trial (`benchmarks/fewer_patterns.py`). More
patterns than in training gain nothing from longer steps and are written as learned.
"""

import equinox as eqx
import jax.numpy as jnp

from .core.model import EBMM
from .interface import AbstractMemoryModel

EXPONENTS = (1.0, 1.5, 0.0)
"""Of N / N₀, for the terms of the writing loss: energy, gradient and prior."""


def for_fewer(
    model: AbstractMemoryModel,
    patterns: int,
    trained_for: int | None,
    exponents: tuple[float, float, float] = EXPONENTS,
) -> AbstractMemoryModel:
    """The same model, its write steps shortened where these are fewer patterns than it was trained for."""
    if not isinstance(model, EBMM) or trained_for is None or not 0 < patterns < trained_for:
        return model
    factors = (patterns / trained_for) ** jnp.asarray(exponents)
    return eqx.tree_at(lambda each: each.write_rates, model, model.write_rates.scaled(factors))
