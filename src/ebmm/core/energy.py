"""What an energy is, and which of its layers writing may change.

An energy E(x; θ) is any Equinox module or plain function that maps one pattern, of any shape, to one
number. `where` names the layers that are the memory; every other parameter stays as it was
meta-learned. A plain function with parameters takes part as `eqx.Partial(function, parameters)`, its
layers named by `where=lambda e: e.args[0]["layer"]`.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import PyTree

Energy = Callable[..., Any]
Where = Callable[[Any], Any]
Layers = tuple[PyTree, ...]


def named_layers(energy: Energy, where: Where) -> list[PyTree]:
    """The layers that `where` names, as they stand in the energy."""
    named = where(energy)
    return list(named) if isinstance(named, tuple | list) else [named]


def writable_layers(energy: Energy, where: Where) -> Layers:
    """The arrays of the layers that `where` names, one entry a layer."""
    return tuple(eqx.filter(layer, eqx.is_inexact_array) for layer in named_layers(energy, where))


def with_layers(energy: Energy, where: Where, layers: Layers) -> Energy:
    """The same energy with these arrays in the named layers."""
    merged = [eqx.combine(new, old) for new, old in zip(layers, named_layers(energy, where), strict=True)]
    return eqx.tree_at(lambda e: named_layers(e, where), energy, merged)
