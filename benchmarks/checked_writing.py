"""What it is worth that a write checks itself, by the number of patterns: mean, worst batch, and batches that are lost.

python benchmarks/checked_writing.py binary-rnn --on strings --batches 100 --out checked.json --picture checked.png
    python benchmarks/checked_writing.py omniglot-conv-9k --on omniglot --counts 1 4 16 64 --batches 12
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ebmm import Memory
from ebmm.careful import ENOUGH, LENGTHS
from ebmm.cli.output import save_figure
from ebmm.evaluation.errors import measure_errors
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.files import as_json, write_whole
from ebmm.provenance import provenance

LOST = 0.5
"""A batch counts as lost that keeps at least this share of the errors it would have with the damage blanked."""


def drawn(rows: list[dict[str, Any]], title: str) -> Figure:
    """The error of each batch, unchecked to the left of its number of patterns and checked to the right."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    axis = figure.subplots()
    scatter = np.random.default_rng(0)  # sideways, so that batches of the same error can be seen
    looks = {"unchecked": (-0.18, "#D55E00"), "checked": (0.18, "#0072B2")}
    for name, (aside, colour) in looks.items():
        errors = [row[name]["batches"] for row in rows]
        for place, of_each in enumerate(errors):
            across = place + aside + 0.1 * scatter.uniform(-1, 1, len(of_each))
            axis.scatter(
                across, of_each, s=9, color=colour, alpha=0.5, linewidths=0, label=name if place == 0 else None
            )
        means = [row[name]["mean"] for row in rows]
        axis.scatter(np.arange(len(rows)) + aside, means, marker="_", s=220, color=colour, label=f"{name}, mean")
    axis.set_yscale("symlog", linthresh=0.1)
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set(xticks=range(len(rows)), xticklabels=[str(row["patterns"]) for row in rows], title=title)
    axis.set(xlabel="patterns stored", ylabel="wrong values of a pattern", ylim=(-0.02, None))
    axis.legend(fontsize=8, ncols=2)
    return figure


def main(
    model: Annotated[str, tyro.conf.Positional],
    on: str = "strings",
    counts: tuple[int, ...] = (1, 2, 4, 8, 16, 24, 32, 48, 56, 64, 80, 96, 128),
    batches: int = 100,
    out: Path | None = None,
    picture: Path | None = None,
) -> None:
    """Args:
    model: A bundled model's name, or the folder of a saved one.
    on: What to store and how to damage it.
    counts: Patterns in a batch.
    batches: Of each, the same for both ways of writing.
    out: Where to save it all as JSON.
    picture: Where to draw the error of every batch.
    """
    memory, key = Memory.from_pretrained(model), jax.random.fold_in(jax.random.key(0), 0)
    ways = {"unchecked": False, "checked": True}
    rows: list[dict[str, Any]] = []
    for count in track(counts, "Measuring"):
        protocol = replace(PROTOCOLS[on], patterns=count)
        row: dict[str, Any] = {"patterns": count}
        for name, careful in ways.items():
            written = memory.model_for(count, careful=careful)
            found = measure_errors(written, protocol.episodes(), key=key, metric=protocol.metric, batches=batches)
            row[name] = {
                "mean": float(np.mean(found.read)),
                "worst": float(np.max(found.read)),
                "lost": float(np.mean(found.read >= LOST * found.blanked)),
                "batches": found.read.tolist(),
            }
        rows.append(row)
        if out:
            about = {"model": model, "on": on, "batches": batches, "lengths": LENGTHS, "enough": ENOUGH}
            write_whole({out: as_json({**about, "rows": rows, **provenance(seed=0)})})
    if picture:
        save_figure(drawn(rows, f"{model}, {batches} batches of each number of patterns"), picture)
    names = [f"{name}, {what}" for name in ways for what in ("mean", "worst", "lost")]
    table = Table("patterns", *names, title=f"{model}, wrong values over {batches} batches")
    for row in rows:
        numbers = (row[name][what] for name in ways for what in ("mean", "worst", "lost"))
        table.add_row(str(row["patterns"]), *(f"{number:.3g}" for number in numbers))
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
