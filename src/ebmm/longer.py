"""Reading in more or fewer steps than a model has learned, and models to start from that are to learn more steps.

The learned step sizes never increase, so that a read settles: more steps of the last size take it a little further
down the same energy. What that is worth depends on the model (`docs/log.md` has numbers). Write steps are no such
descent; whoever learns on can have more of them, each a part of a learned one.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from .core.model import EBMM
from .interface import AbstractMemoryModel

LIKE_THE_LAST = 3.0
"""The logit of a new step size: 0.95 of the one before."""


def in_steps(model: AbstractMemoryModel, steps: int | None) -> AbstractMemoryModel:
    """The same model, read in so many steps: the first of those that it has learned, or the last one repeated."""
    if steps is None:
        return model
    if steps < 1:
        raise ValueError(f"read steps: got {steps}; expected at least 1.")
    if not isinstance(model, EBMM):
        raise ValueError(f"read steps: a {type(model).__name__} is not read down an energy; leave them out for it.")
    return eqx.tree_at(lambda each: each.read_rates, model, model.read_rates.lasting(steps))


def to_learn_in(model: AbstractMemoryModel, *, write_steps: int, read_steps: int) -> AbstractMemoryModel:
    """The same model to start from with more steps: each new read step a little smaller than the one before, and each
    write step in several parts of equal length, which lead nearly to where it led.

    An exact repetition of a read step would stay one, its logit being infinite. Fewer steps are for whoever reads, not
    for learning: the model is left as it is, and so it is where its write steps cannot be divided evenly.
    """
    if not isinstance(model, EBMM):
        return model
    write_rates, read_rates = model.write_rates, model.read_rates
    if read_steps > len(read_rates.rates()):
        read_rates = jax.tree.map(
            lambda array: jnp.where(jnp.isinf(array), LIKE_THE_LAST, array), read_rates.lasting(read_steps)
        )
    parts, more = divmod(write_steps, len(write_rates.raw))
    if parts > 1 and not more:
        write_rates = write_rates.in_parts(parts)
    return eqx.tree_at(lambda each: (each.write_rates, each.read_rates), model, (write_rates, read_rates))
