"""What was measured, as plain data for a results file and as tables for a person."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table

from .energy_levels import told_apart
from .errors import Errors, Spread

FLOAT_BITS = 32
UNITS = {"hamming": "wrong values", "squared": "squared error"}


def error_report(errors: Errors, *, patterns: int, memory_size: int | None = None) -> dict[str, Any]:
    """The model's errors beside the yardsticks, and both memories in bits."""
    exact_bits = float(errors.exact_bits.mean())
    report: dict[str, Any] = {
        "error": None,
        "iterates": [],
        "memory": None,
        "yardsticks": {
            "nothing": asdict(Spread.of(errors.nothing)),
            "blanked": asdict(Spread.of(errors.blanked)),
            "exact": asdict(Spread.of(errors.exact)) | {"bits": exact_bits, "bits_per_pattern": exact_bits / patterns},
        },
    }
    if errors.iterates is not None:
        report["error"] = asdict(Spread.of(errors.read))
        report["iterates"] = [asdict(Spread.of(values)) for values in errors.iterates.T]
    if errors.not_finite is not None:
        report["not_finite"] = float(errors.not_finite.mean())
    if memory_size is not None:
        bits = memory_size * FLOAT_BITS
        report["memory"] = {"floats": memory_size, "bits": bits, "bits_per_pattern": bits / patterns}
    return report


def energy_report(levels: dict[str, np.ma.MaskedArray]) -> dict[str, Any]:
    """Mean and percentiles of each kind's energies over all its patterns, how many are not finite, and how well they
    are told apart from the memories'. A kind without a single finite energy has no mean.
    """
    report: dict[str, Any] = {}
    for name, values in levels.items():
        given = values.compressed()
        finite = given[np.isfinite(given)]
        spread = asdict(Spread.of(finite)) if finite.size else {"mean": None, "low": None, "high": None}
        report[name] = spread | {"not_finite": given.size - finite.size}
        if name != "memories":
            report[name]["told_apart"] = told_apart(levels["memories"], values)
    return report


def error_table(report: dict[str, Any], *, title: str, metric: str) -> Table:
    table = Table("", UNITS[metric], "5 %", "95 %", "bits", "bits a pattern", title=title)
    for column in table.columns[1:]:
        column.justify = "right"

    def add(name: str, spread: dict[str, float], memory: dict[str, Any] | None = None) -> None:
        bits = ("–", "–") if memory is None else (f"{memory['bits']:,.0f}", f"{memory['bits_per_pattern']:,.0f}")
        table.add_row(name, *(f"{spread[key]:.2f}" for key in ("mean", "low", "high")), *bits)

    add("doing nothing", report["yardsticks"]["nothing"])
    add("damage blanked, its place known", report["yardsticks"]["blanked"])
    table.add_section()
    last = len(report["iterates"])
    for step, spread in enumerate(report["iterates"], start=1):
        add(f"read step {step}", spread, report["memory"] if step == last else None)
    table.add_section()
    add("exact store, nearest neighbour", report["yardsticks"]["exact"], report["yardsticks"]["exact"])
    if report.get("not_finite"):
        table.caption = f"{report['not_finite']:.1%} of the reads are not finite: the model has diverged."
    return table


def strength_table(strengths: dict[str, dict[str, Any]], *, metric: str) -> Table:
    table = Table("damage", "doing nothing", "blanked", "recalled", "exact store", title=f"{UNITS[metric]} by damage")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, report in strengths.items():
        known = report["yardsticks"]
        recalled = "–" if report["error"] is None else f"{report['error']['mean']:.2f}"
        cells = (f"{known[kind]['mean']:.2f}" for kind in ("nothing", "blanked"))
        table.add_row(name, *cells, recalled, f"{known['exact']['mean']:.2f}")
    return table


def energy_table(levels: dict[str, Any]) -> Table:
    table = Table("energy of", "mean", "5 %", "95 %", "above a memory's", title="Energies in the memory")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, spread in levels.items():
        apart = spread.get("told_apart")
        cells = ("–" if spread[key] is None else f"{spread[key]:.3f}" for key in ("mean", "low", "high"))
        table.add_row(name, *cells, "–" if apart is None else of_pairs(apart))
    return table


def of_pairs(share: float) -> str:
    """In per cent, rounded down: 100 % are all pairs."""
    return f"{math.floor(10_000 * share) / 100:g} %"
