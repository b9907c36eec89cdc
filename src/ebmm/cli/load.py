"""How many patterns a memory holds against how many its model was trained for, and what error to expect of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..memory import Memory

Training = Mapping[str, Any] | None


def load_warning(memory: Memory, patterns: int) -> str | None:
    """What to expect of more patterns than a model was trained for; None where there is nothing to warn of."""
    trained = memory.trained or {}
    load = trained.get("patterns")
    if load is None or patterns <= load:
        return None
    error, usual = expected_error(trained, patterns), expected_error(trained, load)
    expect = "more errors" if error is None or usual is None else f"{error} a pattern, not the {usual} of {load}"
    return f"Warning: {patterns} patterns are more than the {load} that {memory.name} was trained for: expect {expect}."


def expected_error(trained: Training, patterns: int) -> str | None:
    """The measured error, between two measured numbers of patterns on the line through both; None if none is known."""
    measured = {int(count): error for count, error in (trained or {}).get("error_by_patterns", {}).items()}
    if not measured:
        return None
    counts = sorted(measured)
    error = np.interp(patterns, counts, [measured[count] for count in counts])
    return f"{'more than' if patterns > counts[-1] else 'about'} {error:.0f} wrong values"


def fullness(trained: Training, patterns: int) -> str:
    """So many patterns in words, beside the number that the model was trained for."""
    load = (trained or {}).get("patterns")
    held = f"{patterns:,} pattern{'' if patterns == 1 else 's'}"
    if load is None:
        return f"{held}; how many the model was trained for is not known"
    return f"{held}: {patterns / load:.0%} of the {load} that the model was trained for"
