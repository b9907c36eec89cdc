"""Pictures of what a memory does. Needs matplotlib: `pip install 'ebmm[demo]'`."""

from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

PAPER, INK = np.array([1.0, 1.0, 1.0]), np.array([0.13, 0.13, 0.13])
TOO_MUCH = np.array([0.84, 0.37, 0.0])  # vermilion and blue: told apart from each other and from greys by everyone
TOO_LITTLE = np.array([0.0, 0.45, 0.70])


def recall_figure(columns: NDArray, wrong: list[float], energies: NDArray | None, *, title: str = "") -> Figure:
    """Patterns from damaged to recalled to stored, and below them how the energy falls on the way.

    `columns` [steps + 2, shown, height, width] has values in [0, 1]: the damaged patterns, each read step and the
    stored ones; `wrong` is the mean number of wrong values in each, and `energies` [steps + 2, n] those of all
    patterns. `title` may have several lines. Half of the patterns are drawn on the left and half on the right.
    """
    steps, shown, height, width = columns.shape
    rows = -(-shown // 2)
    tile = 0.76 if steps <= 7 else 5.3 / steps  # inches
    letters = 13 * tile  # points: "128 wrong" is as wide as a tile
    heading = 0.22 * len(title.splitlines()) + 0.1
    drawings, panel = rows * tile * height / width, 0.0 if energies is None else 1.2
    top, between, side, middle = heading + 0.4, 0.36, 0.68, 0.72
    bottom = 0.1 if energies is None else 0.5
    tall = top + drawings + (between + panel if energies is not None else 0) + bottom
    wide = 2 * steps * tile + side + middle + 0.05
    figure = Figure(figsize=(wide, tall))
    figure.text(0.5, 1 - 0.08 / tall, title, fontsize=11, ha="center", va="top", linespacing=1.3)
    for half, part in enumerate((slice(0, rows), slice(rows, shown))):
        if not len(columns[0, part]):
            continue
        left, across = (side + half * (steps * tile + middle)) / wide, steps * tile / wide
        here = figure.add_axes((left, 1 - (top + drawings) / tall, across, drawings / tall))
        _mosaic(here, columns[:, part], rows)
        for column in range(steps):
            name = _column_title(column, steps, wrong)
            here.text(column + 0.5, -0.05, name, fontsize=letters, ha="center", va="bottom", linespacing=1.15)
        if energies is not None:
            _energy_panel(figure.add_axes((left, bottom / tall, across, panel / tall)), energies, part, steps)
    return figure


def _mosaic(axis: Axes, columns: NDArray, rows: int) -> None:
    """One unit of the axes a pattern, with a little paper around each."""
    for column, patterns in enumerate(columns):
        for row, pattern in enumerate(patterns):
            extent = (column + 0.04, column + 0.96, row + 0.96, row + 0.04)
            axis.imshow(_drawn(pattern, columns[-1, row]), extent=extent, interpolation="nearest", aspect="auto")
            edges = (extent[0], extent[3]), 0.92, 0.92
            axis.add_patch(Rectangle(*edges, fill=False, edgecolor="#B0B0B0", lw=0.6))
    axis.set(xlim=(0, len(columns)), ylim=(rows, 0))
    axis.set_axis_off()


def _column_title(column: int, steps: int, wrong: list[float]) -> str:
    name = {0: "damaged", steps - 1: "stored"}.get(column, f"read {column}")
    return f"{name}\n{wrong[column]:.0f} wrong" if column < steps - 1 else name


def _drawn(pattern: NDArray, stored: NDArray) -> NDArray:
    """Ink on paper; what should be paper in vermilion, what should be ink in blue."""
    ink = np.clip(pattern, 0, 1)[..., None]
    is_ink, should_be = (pattern > 0.5)[..., None], (stored > 0.5)[..., None]
    drawn = PAPER + ink * (INK - PAPER)
    drawn = np.where(is_ink & ~should_be, TOO_MUCH, drawn)
    return np.where(~is_ink & should_be, TOO_LITTLE, drawn)


def _energy_panel(axis: Axes, energies: NDArray, part: slice, steps: int) -> None:
    """The energies of these patterns, one line each, over those of all, below the columns that they belong to."""
    places = np.arange(steps)
    low, high = np.percentile(energies, [5, 95], axis=1)
    axis.fill_between(places, low, high, color="#DDDDDD", lw=0)
    axis.plot(places, energies[:, part], "o-", color="#444444", lw=1, ms=2.5)
    margin = 0.05 * float(np.ptp(energies)) or 1.0
    axis.set(xlim=(-0.5, steps - 0.5), ylim=(energies.min() - margin, energies.max() + margin))
    axis.set_xticks(places, ["damaged", *map(str, places[1:-1]), "stored"])
    axis.set_xlabel("read step", fontsize=10, labelpad=1)
    axis.set_ylabel("energy", fontsize=10, labelpad=1)
    axis.set_title("energy of each pattern above (grey: of 90 % of all)", fontsize=10, pad=4)
    axis.tick_params(labelsize=9.5, length=2)
    axis.spines[["top", "right"]].set_visible(False)


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
    low, high = axis.get_ylim()
    # A short stretch may hold only one of 1, 2, 5 and 10.
    axis.yaxis.set_major_locator(MaxNLocator(6) if high < 5 * low else LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_locator(NullLocator() if high < 5 * low else LogLocator(subs="auto"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)
    return figure


MARKERS = "osD^vPX*"  # one more than colours, so that no two systems look the same


def table_figure(
    title: str, panels: dict[str, dict[str, dict[str, dict[int, float | int]]]], *, chance: float
) -> Figure:
    """Errors against the number of patterns: a panel for each kind of system, in it for each system `ours` and
    `published` by number of patterns. The axis is linear below 0.1 and logarithmic above.
    """
    figure = Figure(figsize=(5.4 * len(panels), 4.8), layout="constrained")
    for axis, (kind, systems) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        colours = (*COLOURS, "black")
        for index, (name, values) in enumerate(systems.items()):
            ours, published = values["ours"], values["published"]
            colour, marker = colours[index % len(colours)], MARKERS[index % len(MARKERS)]
            line = "-" if index < len(colours) else "-."
            axis.plot(list(ours), list(ours.values()), f"{marker}{line}", color=colour, ms=5, lw=1.4, label=name)
            axis.plot(list(published), list(published.values()), f"{marker}:", color=colour, mfc="white", ms=5, lw=0.9)
        axis.axhline(chance, color=GREY, ls="--", lw=1, label="chance, known bits clamped")
        axis.set_yscale("symlog", linthresh=0.1)
        counts = sorted({count for values in systems.values() for each in values.values() for count in each})
        axis.set_xticks(counts)
        axis.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
        axis.set(xlabel="patterns stored", ylabel=title.lower(), ylim=(-0.02, 130))
        axis.set_title(f"{kind} (open marks, dotted: the paper)", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return figure


class Bar(NamedTuple):
    """The mean and the 5- and 95-percentiles of ours, if measured, and the paper's number, if there is one."""

    ours: tuple[float, float, float] | None
    published: float | int | None


def bars_figure(title: str, panels: dict[str, dict[str, Bar]]) -> Figure:
    """Errors of many systems: a panel for each kind of damage, in it a bar for each system."""
    rows = max(map(len, panels.values()))
    figure = Figure(figsize=(6.6 * len(panels), 1.2 + 0.32 * rows), layout="constrained")
    for axis, (damage, bars) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for row, bar in enumerate(bars.values()):
            if bar.ours is not None:
                mean, low, high = bar.ours
                axis.barh(row, mean, color=COLOURS[0], height=0.7)
                axis.plot([low, high], [row, row], color="black", lw=1)
                end = max(mean, high, bar.published or 0)
                axis.annotate(f"{mean:.2f}", (end, row), xytext=(9, 0), textcoords="offset points",
                              va="center", fontsize=8)  # fmt: skip
            if bar.published is not None:
                axis.plot(bar.published, row, "D", color="black", mfc="white", ms=5)
        axis.set_yticks(range(len(bars)), list(bars), fontsize=8)
        axis.invert_yaxis()
        axis.set_xscale("symlog", linthresh=1)
        axis.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
        axis.set(xlabel=title.lower(), xlim=(0, 500))
        axis.set_title(f"{damage} (diamonds: the paper)", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    return figure
