"""Pictures of what a memory does. Needs matplotlib: `pip install 'ebmm[demo]'`."""

from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
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


def damage_figure(rows: dict[str, NDArray]) -> Figure:
    """One row for each kind of damage, one column for each image [n, height, width, channels] in [0, 1]."""
    count = len(next(iter(rows.values())))
    figure = Figure(figsize=(1.5 + 0.95 * count, 0.95 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), count, squeeze=False)
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        for axis, image in zip(line, images, strict=True):
            ink = 1 - image if image.shape[-1] == 1 else image  # drawings are dark on white
            axis.imshow(np.repeat(ink, 3, axis=-1) if image.shape[-1] == 1 else ink, interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    return figure


def evaluation_figure(report: dict[str, Any]) -> Figure:
    """What `ebmm evaluate` measured: errors at every read step beside the yardsticks, and the rest if it is there."""
    panels = [_errors_panel]
    panels += [_strengths_panel] if "strengths" in report else []
    panels += [_energies_panel] if "energies" in report else []
    figure = Figure(figsize=(5.2 * len(panels), 3.6), layout="constrained")
    for axis, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        panel(axis, report)
        axis.spines[["top", "right"]].set_visible(False)
    return figure


UNITS = {"hamming": "wrong values of a pattern", "squared": "squared error of a pattern"}
BLUE, GREY, GREEN = "#0072B2", "#767676", "#009E73"  # told apart by everyone
COLOURS = (BLUE, "#D55E00", GREEN, "#CC79A7", "#E69F00", "#56B4E9")


def _errors_panel(axis: Axes, report: dict[str, Any]) -> None:
    spreads = [report["yardsticks"]["nothing"], *report["iterates"]]
    steps = range(len(spreads))
    axis.fill_between(steps, [s["low"] for s in spreads], [s["high"] for s in spreads], color=BLUE, alpha=0.2, lw=0)
    axis.plot(steps, [s["mean"] for s in spreads], "o-", color=BLUE, label="recalled (mean, 5 to 95 %)")
    blanked, exact = (report["yardsticks"][name]["mean"] for name in ("blanked", "exact"))
    axis.axhline(blanked, color=GREY, ls="--", label="damage blanked, its place known")
    axis.axhline(exact, color=GREEN, ls=":", label="exact store")
    axis.set_xticks(steps, ["query", *map(str, steps[1:])])
    axis.set(xlabel="read step", ylabel=UNITS[report["metric"]], ylim=(0, None))
    axis.set_title(f"{report['patterns']} patterns, {report['damage']}, {report['batches']} batches", fontsize=10)
    axis.legend(frameon=False, fontsize=8)


def _strengths_panel(axis: Axes, report: dict[str, Any]) -> None:
    places = range(len(report["strengths"]))
    rows = list(report["strengths"].values())
    for name, colour, style in (("nothing", GREY, ":"), ("blanked", GREY, "--"), ("exact", GREEN, ":")):
        axis.plot(places, [row["yardsticks"][name]["mean"] for row in rows], style, color=colour, label=name)
    if rows[0]["error"] is not None:
        axis.plot(places, [row["error"]["mean"] for row in rows], "o-", color=BLUE, label="recalled")
    axis.set_xticks(places, list(report["strengths"]), rotation=20, ha="right")
    axis.set(ylabel=UNITS[report["metric"]], ylim=(0, None))
    axis.set_title("error by damage", fontsize=10)
    axis.legend(frameon=False, fontsize=8)


def _energies_panel(axis: Axes, report: dict[str, Any]) -> None:
    levels = {name: spread for name, spread in report["energies"].items() if spread["mean"] is not None}
    for place, spread in enumerate(levels.values()):
        axis.plot([spread["low"], spread["high"]], [place, place], color=BLUE, lw=6, alpha=0.3, solid_capstyle="round")
        axis.plot(spread["mean"], place, "o", color=BLUE)
    axis.set_yticks(range(len(levels)), list(levels))
    axis.invert_yaxis()
    axis.set(xlabel="energy (mean, 5 to 95 %)")
    axis.set_title("energies in a memory", fontsize=10)


def training_figure(runs: dict[str, list[dict[str, Any]]]) -> Figure:
    """The error of one or more runs over their updates, on a logarithmic axis, from the lines of their `metrics.jsonl`.

    Where the number of patterns changes there is a vertical line, where a run rolled back a cross.
    """
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axis = figure.subplots()
    for (name, lines), colour in zip(runs.items(), cycle(COLOURS)):
        updates = [line["update"] for line in lines]
        axis.plot(updates, [line["error"] for line in lines], color=colour, lw=1, alpha=0.8, label=name)
        tested = [line for line in lines if line.get("held_out") is not None]
        if tested:
            places, errors = zip(*((line["update"], line["held_out"]) for line in tested), strict=True)
            axis.plot(places, errors, "o--", color=colour, ms=3, lw=1, label=f"{name}, held out")
        backwards = [line for line in lines if "rolled back" in line.get("event", "")]
        axis.plot([line["update"] for line in backwards], [line["error"] for line in backwards], "x", color="black")
    stages = [line for lines in runs.values() for line in lines if line.get("event", "").startswith("on to")]
    for line in stages if len(runs) == 1 else []:
        axis.axvline(line["update"], color=GREY, lw=0.8, ls=":")
        axis.annotate(line["event"], (line["update"], 1), xycoords=("data", "axes fraction"), rotation=90, fontsize=7,
                      xytext=(2, -2), textcoords="offset points", va="top", color=GREY)  # fmt: skip
    axis.set(xlabel="update", ylabel="wrong values of a pattern", yscale="log")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)
    return figure
