"""The paper's figures of energies and of rates. Needs matplotlib: `pip install 'ebmm[demo]'`.

They are drawn 7.2 inches wide: on a page of some 900 pixels, their letters are as large as the page's own.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from ..evaluation.report import of_pairs
from ..figures import COLOURS, GREY, MARKERS

WIDE = 7.2
STYLES = ("-", "--", "-.", ":")
WRITING = {"energy": ("energy E", "η"), "gradient": ("gradient ‖∇E‖²", "ηα"), "prior": ("prior ‖θ − θ̄‖²", "ηβ")}
READING = {"rate": "rate γ", "momentum": "momentum ψ"}


def energies_figure(report: Mapping[str, Any], *, title: str) -> Figure:
    """How the energies of each kind of pattern are distributed, one kind below the other on the same axis.

    `report` has for each kind its spread in `energies` and the share of its patterns in each bin in `shares`, and the
    edges of the bins in `bins`.
    """
    edges, shares = np.array(report["bins"]), report["shares"]
    figure = Figure(figsize=(WIDE, 0.85 * len(shares) + 0.95), layout="constrained")
    figure.suptitle(title, fontsize=10.5)
    axes = figure.subplots(len(shares), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, heights), colour in zip(axes, shares.items(), cycle(COLOURS)):
        spread = report["energies"][name]
        axis.stairs(100 * np.array(heights), edges, fill=True, color=colour, alpha=0.55)
        axis.stairs(100 * np.array(heights), edges, color=colour, lw=1)
        if spread["mean"] is not None:
            axis.axvline(spread["mean"], color="black", lw=1.2, ls="--")
        axis.set_ylabel(name.replace(" ", "\n", 1), rotation=0, ha="right", va="center", fontsize=10)
        axis.yaxis.set_major_locator(MaxNLocator(2, integer=True, min_n_ticks=2))
        axis.set_ylim(0, None)
        _note(axis, spread)
        _plain(axis)
    figure.align_ylabels(axes)
    axes[-1].set_xlabel("energy (dashed: the mean)", fontsize=10)
    figure.supylabel("patterns in a bin, %", fontsize=10)
    return figure


def _note(axis: Axes, spread: Mapping[str, Any]) -> None:
    """What part of pairs with a memory is ordered rightly, at the end of the axis that has more room."""
    if spread.get("told_apart") is None:
        return
    low, high = axis.get_xlim()
    is_left = spread["mean"] is None or spread["mean"] > (low + high) / 2
    place, side = (0.01, "left") if is_left else (0.99, "right")
    text = f"above a memory\nin {of_pairs(spread['told_apart'])} of pairs"
    axis.text(place, 0.92, text, transform=axis.transAxes, fontsize=9, ha=side, va="top")


def rates_figure(
    write_rates: Mapping[str, Mapping[str, Sequence[float]]], read_rates: Mapping[str, Sequence[float]], *, title: str
) -> Figure:
    """The learned rates by step, on logarithmic axes: a panel for each term of the writing loss with a line for each
    layer, `write_rates[term][layer]`, and a panel for reading with its `rate` and its `momentum`.
    """
    figure = Figure(figsize=(WIDE, 5.6), layout="constrained")
    figure.suptitle(title, fontsize=10.5)
    *writing, reading = figure.subplots(2, 2).flat
    while len(writing) > len(write_rates):  # a model without the gradient term has a rate less
        writing.pop().remove()
    for axis, (term, layers) in zip(writing, write_rates.items(), strict=True):
        what, symbol = WRITING[term]
        _schedule(axis, layers, COLOURS)
        axis.set_title(f"writing: {what}", fontsize=10.5)
        axis.set_xlabel("write step", fontsize=10)
        axis.set_ylabel(f"rate {symbol}", fontsize=10)
    _schedule(reading, {READING[name]: rates for name, rates in read_rates.items()}, COLOURS[2:])
    reading.set_title("reading", fontsize=10.5)
    reading.set_xlabel("read step", fontsize=10)
    reading.set_ylabel("γ and ψ", fontsize=10)
    reading.legend(frameon=False, fontsize=9.5)
    handles = writing[0].get_lines()
    figure.legend(handles=handles, title="layer that is written", loc="outside lower center", ncols=2, fontsize=9.5,
                  title_fontsize=9.5, frameon=False)  # fmt: skip
    return figure


def _schedule(axis: Axes, lines: Mapping[str, Sequence[float]], colours: Sequence[str]) -> None:
    for (name, rates), colour, marker, style in zip(lines.items(), cycle(colours), cycle(MARKERS), cycle(STYLES)):
        axis.plot(range(1, len(rates) + 1), rates, f"{marker}{style}", color=colour, lw=1.6, ms=5.5, label=name)
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    narrow = high < 200 * low  # where there is room for more than the powers of ten
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=9))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    _plain(axis)


def _plain(axis: Axes) -> None:
    axis.tick_params(labelsize=9)
    axis.grid(axis="x", color=GREY, alpha=0.2, lw=0.6)
    axis.spines[["top", "right"]].set_visible(False)
