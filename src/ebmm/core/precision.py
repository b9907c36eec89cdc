"""Energies in half precision, for training on a GPU: half the bytes to move, and matrix products twice as fast."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .energy import Energy
from .model import EBMM

LOSS_SCALE = 2.0**-6
"""Of the loss, before it is differentiated through half precision, whose largest number is 65,504. Cotangents inside an
energy went beyond that in one sound episode of five of a model of strings. Much smaller, those of drawings vanish.
"""


class InHalfPrecision(eqx.Module):
    """The same energy, computed in float16 from weights and patterns in float32.

    It has as many binary digits as TF32, in which a GPU multiplies float32 anyway; bfloat16 has three fewer. Weights
    are rounded at each use, so that the gradients of all uses are added up in float32.
    """

    energy: Energy

    def __call__(self, pattern: Float[Array, "*pattern"]) -> Float[Array, ""]:
        energy = jax.tree.map(_halved, self.energy)
        return energy(_halved(pattern)).astype(pattern.dtype)


def _halved(leaf: Any) -> Any:
    return leaf.astype(jnp.float16) if eqx.is_inexact_array(leaf) else leaf


def in_half_precision(model: EBMM) -> EBMM:
    """The same model with its energy in half precision, for a loss that is scaled by `LOSS_SCALE`; what is written, and
    the patterns read, stay in float32.
    """
    where, loop = model.where, model.loop
    if loop.cotangent_limit is not None:
        loop = replace(loop, cotangent_limit=LOSS_SCALE * loop.cotangent_limit)
    return replace(model, energy=InHalfPrecision(model.energy), where=lambda half: where(half.energy), loop=loop)
