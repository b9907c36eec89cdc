"""How many patterns a memory holds against how many its model was trained for, and what error to expect of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..memory import Memory

Training = Mapping[str, Any] | None


def load_warning(memory: Memory, patterns: int) -> str | None:
    """What to expect of another number of patterns than a model was trained for; None where nothing is to be feared.

    Fewer can be worse too: a model that has learned to write many at once may write too hard with few.
    """
    trained = memory.trained or {}
    load = trained.get("patterns")
    if load is None or patterns == load:
        return None
    error, usual = measured_error(trained, patterns), measured_error(trained, load)
    if patterns < load and (error is None or usual is None or error <= 1.5 * usual):
        return None
    expect = "more errors"
    if error is not None:
        expect = f"{expected_error(trained, patterns)} a pattern, not the {expected_error(trained, load)} of {load}"
    compared = "more" if patterns > load else "fewer"
    return (
        f"Warning: {patterns} patterns are {compared} than the {load} that {memory.name} was trained for: "
        f"expect {expect}."
    )


def measured_error(trained: Training, patterns: int) -> float | None:
    """The measured error, between two measured numbers of patterns on the line through both; None if none is known."""
    measured = _by_patterns(trained)
    return float(np.interp(patterns, list(measured), list(measured.values()))) if measured else None


def expected_error(trained: Training, patterns: int) -> str | None:
    """The same in words."""
    error = measured_error(trained, patterns)
    if error is None:
        return None
    return f"{'more than' if patterns > max(_by_patterns(trained)) else 'about'} {error:.0f} wrong values"


def _by_patterns(trained: Training) -> dict[int, float]:
    measured = {int(count): float(error) for count, error in (trained or {}).get("error_by_patterns", {}).items()}
    return dict(sorted(measured.items()))


def fullness(trained: Training, patterns: int) -> str:
    """So many patterns in words, beside the number that the model was trained for."""
    load = (trained or {}).get("patterns")
    held = f"{patterns:,} pattern{'' if patterns == 1 else 's'}"
    if load is None:
        return f"{held}; how many the model was trained for is not known"
    return f"{held}: {patterns / load:.0%} of the {load} that the model was trained for"
