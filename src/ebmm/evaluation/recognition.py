"""Whether a pattern looks stored, judged by its energy beside the energies of what was written."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

Verdict = Literal["yes", "perhaps", "no"]


def looks_stored(energy: float, stored: Sequence[float]) -> Verdict:
    """`yes` up to the highest energy that a stored pattern had when it was written, `perhaps` a little above.

    A recalled pattern is not exactly the stored one and lies somewhat higher: by up to a quarter of the range of the
    stored energies, or a tenth of their size where they are few or alike. An energy that is no number is not stored.
    """
    lowest, highest = min(stored), max(stored)
    size = abs(float(np.mean(stored)))
    tolerance = max((highest - lowest) / 4, 0.1 * size)
    if energy <= highest + 1e-4 * size:  # energies are noted in six digits
        return "yes"
    return "perhaps" if energy <= highest + tolerance else "no"
