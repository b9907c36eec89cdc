"""What an energy is, and which of its layers writing may change.

An energy E(x; θ) is any Equinox module or plain function that maps one pattern, of any shape, to one
number. `where` names the layers that are the memory; every other parameter stays as it was
meta-learned. A plain function with parameters takes part as `eqx.Partial(function, parameters)`, its
layers named by `where=lambda e: e.args[0]["layer"]`.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
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


def check_energy(energy: Energy, where: Where, pattern_shape: tuple[int, ...]) -> None:
    """Refuse what is not an energy with layers to write, before anything is compiled."""
    layers = writable_layers(energy, where)
    if not layers:
        raise ValueError("`where` names no layer; let it return those to write, such as `(e.layers[0],)`.")
    for index, layer in enumerate(layers):
        dtypes = {array.dtype for array in jax.tree.leaves(layer)}
        if not dtypes or not dtypes <= {jnp.dtype("float32"), jnp.dtype("float64")}:
            found = ", ".join(sorted(map(str, dtypes))) or "none"
            raise ValueError(f"Layer {index} of `where` must hold float32 or float64 arrays; it holds {found}.")
    with_layers(energy, where, layers)  # refuses a layer named twice
    shape = eqx.filter_eval_shape(energy, jax.ShapeDtypeStruct(pattern_shape, jnp.float32)).shape
    if shape != ():
        raise ValueError(f"One pattern of shape {pattern_shape} gave an energy of shape {shape}; expected ().")
