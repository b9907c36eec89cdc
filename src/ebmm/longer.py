"""Reading in more or fewer steps than a model has learned.

The learned step sizes never increase, so that a read settles: more steps of the last size take it a little further
down the same energy. What that is worth depends on the model (`docs/log.md` has numbers).
"""

import equinox as eqx

from .core.model import EBMM
from .interface import AbstractMemoryModel


def in_steps(model: AbstractMemoryModel, steps: int | None) -> AbstractMemoryModel:
    """The same model, read in so many steps: the first of those that it has learned, or the last one repeated."""
    if steps is None:
        return model
    if steps < 1:
        raise ValueError(f"read steps: got {steps}; expected at least 1.")
    if not isinstance(model, EBMM):
        raise ValueError(f"read steps: a {type(model).__name__} is not read down an energy; leave them out for it.")
    return eqx.tree_at(lambda each: each.read_rates, model, model.read_rates.lasting(steps))
