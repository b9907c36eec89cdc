"""Pictures of what a memory does. Needs matplotlib: `pip install 'ebmm[demo]'`."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

WRONG = np.array([0.84, 0.37, 0.0])  # vermilion, told apart from greys by everyone


def reading_figure(
    stored: NDArray, damaged: NDArray, trajectory: NDArray, energies: NDArray, of_stored: NDArray
) -> Figure:
    """One row a pattern: the damaged query, each read step and the original, with the energy below each.

    Patterns are ±1 images [n, height, width]; `trajectory` is [steps, n, height, width], `energies`
    [steps + 1, n]. Bits on the wrong side of zero are vermilion.
    """
    columns = [damaged, *trajectory, stored]
    values = [*energies, of_stored]
    titles = ["damaged", *(f"read {k}" for k in range(1, len(trajectory) + 1)), "stored"]
    rows, height, width = stored.shape
    figure = Figure(figsize=(1.35 * len(columns), 0.62 + (1.35 * height / width + 0.2) * rows), layout="constrained")
    axes = figure.subplots(rows, len(columns), squeeze=False)
    for column, (patterns, energy, title) in enumerate(zip(columns, values, titles, strict=True)):
        wrong = np.sign(patterns) != stored
        axes[0, column].set_title(f"{title}\n{wrong.sum(axis=(1, 2)).mean():.2f} wrong", fontsize=9)
        for row in range(rows):
            grey = np.repeat((np.clip(patterns[row], -1, 1)[..., None] + 1) / 2, 3, axis=-1)
            picture = np.where(wrong[row][..., None], 0.8 * WRONG + 0.2 * grey, grey)
            axis = axes[row, column]
            axis.imshow(picture, interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_xlabel(f"{energy[row]:.2f}", fontsize=7, labelpad=2)
    figure.supxlabel("energy below each pattern; bits on the wrong side in vermilion", fontsize=8)
    return figure
