"""What is checked at the door, so that the code inside can trust its types.

Every message says what was given and what was expected.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .core.energy import Energy, Where, with_layers, writable_layers
from .interface import Domain

Shape = tuple[int, ...]


def as_patterns(given: Any, shape: Shape, domain: Domain, dtype: np.dtype, *, what: str) -> tuple[np.ndarray, bool]:
    """The given pattern or batch as a batch of `dtype`, and whether it was a single pattern."""
    array = _as_array(given, what)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)):
        raise ValueError(f"{what}: got dtype {array.dtype}; expected real numbers (floating point, integer or bool).")
    batch, single = _as_batch(array, shape, what)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused as such
        converted = batch.astype(dtype)
    if not np.isfinite(converted).all():
        bad = int(np.argwhere(~np.isfinite(converted))[0][0])
        raise ValueError(f"{what}: pattern {bad} holds NaN or infinity; expected finite numbers in {dtype}.")
    if domain is not None:
        low, high = float(converted.min()), float(converted.max())
        lowest, highest = np.asarray(domain, dtype)  # rounded as the patterns are
        if low < lowest or high > highest:
            hint = " Divide 8-bit images by 255." if domain == (0.0, 1.0) and 1 < high <= 255 and low >= 0 else ""
            raise ValueError(
                f"{what}: got values from {low:g} to {high:g}; this memory holds values in "
                f"[{domain[0]:g}, {domain[1]:g}].{hint}"
            )
    return converted, single


def as_mask(given: Any, batch_shape: Shape, shape: Shape) -> np.ndarray:
    """The mask of undamaged dimensions, one for each query; one of a pattern's shape serves them all."""
    array = _as_array(given, "known")
    if array.dtype != bool:
        raise ValueError(f"known: got dtype {array.dtype}; expected a bool mask, True where a query is undamaged.")
    if array.shape not in (shape, batch_shape):
        raise ValueError(
            f"known: got shape {array.shape}; expected {shape} for all queries or {batch_shape}, one mask for each."
        )
    return np.broadcast_to(array, batch_shape)


def _as_array(given: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:  # lists of unequal length, arrays inside jit
        raise ValueError(
            f"{what}: got something that is not an array ({error}); expected numbers in one shape."
        ) from None


def _as_batch(array: np.ndarray, shape: Shape, what: str) -> tuple[np.ndarray, bool]:
    if array.shape == shape:
        return array[None], True
    if array.shape[1:] != shape or array.ndim != len(shape) + 1:
        expected = f"one pattern of shape {shape} or a batch of shape ({', '.join(['n', *map(str, shape)])})"
        raise ValueError(f"{what}: got shape {array.shape}; expected {expected}.")
    if array.shape[0] == 0:
        raise ValueError(f"{what}: got an empty batch of shape {array.shape}; expected at least one pattern.")
    return array, False


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**32:  # a key holds no more, and would take another seed for this one
        raise ValueError(f"seed: got {seed}; expected a whole number from 0 to 2**32 - 1.")


def check_energy(energy: Energy, where: Where, pattern_shape: Shape) -> None:
    """Refuse what is not an energy with layers to write, before anything is compiled."""
    try:
        layers = writable_layers(energy, where)
        with_layers(energy, where, layers)
        if len({id(array) for array in jax.tree.leaves(layers)}) < len(jax.tree.leaves(layers)):
            raise ValueError("an array is named twice")
    except (AttributeError, IndexError, KeyError, TypeError, RuntimeError, ValueError) as error:
        raise ValueError(f"`where` must return layers of the energy, each of them once; it failed: {error}") from None
    if not layers:
        raise ValueError("`where` names no layer; let it return those to write, such as `(e.layers[0],)`.")
    for index, layer in enumerate(layers):
        dtypes = {array.dtype for array in jax.tree.leaves(layer)}
        if not dtypes or not dtypes <= {jnp.dtype("float32"), jnp.dtype("float64")}:
            found = ", ".join(sorted(map(str, dtypes))) or "none"
            raise ValueError(f"Layer {index} of `where` must hold float32 or float64 arrays; it holds {found}.")
    try:
        out = eqx.filter_eval_shape(energy, jax.ShapeDtypeStruct(pattern_shape, jnp.float32))
    except (TypeError, ValueError) as error:
        raise ValueError(f"The energy does not take a pattern of shape {pattern_shape}: {error}") from None
    shape = getattr(out, "shape", None)
    if shape != ():
        given = type(out).__name__ if shape is None else f"an array of shape {shape}"
        raise ValueError(f"One pattern of shape {pattern_shape} gave {given}; an energy is one number, of shape ().")
