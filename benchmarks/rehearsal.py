"""What the settings of a rehearsal are worth, at the same work: every pattern is read so many times in practice.

python benchmarks/rehearsal.py omniglot-conv-9k --on omniglot --split train --out rehearsal.json
python benchmarks/rehearsal.py binary-rnn --on strings --patterns 96 --reads 75 --out rehearsal.json
"""

import time
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ebmm import Memory, Rehearsal, measure_errors
from ebmm.cli.evaluate import chosen
from ebmm.evaluation.errors import Spread
from ebmm.files import as_json, write_whole
from ebmm.provenance import provenance
from ebmm.rehearsal import with_rehearsal


def main(
    model: Annotated[str, tyro.conf.Positional],
    on: str = "strings",
    split: str = "test",
    patterns: int | None = None,
    reads: tuple[int, ...] = (20,),
    parts: tuple[int, ...] = (1, 4, 16),
    rates: tuple[float, ...] = (0.02, 0.05, 0.1),
    batches: int = 4,
    seed: int = 1,
    out: Path | None = None,
) -> None:
    """Errors over a few batches. Choose on the training split, or with another seed than that of a table."""
    memory = Memory.from_pretrained(model)
    protocol = chosen(on, memory, patterns=patterns, damage=None)
    episodes = protocol.episodes(split)
    plain = memory.model_for(protocol.patterns)
    about = {"model": model, "on": on, **asdict(protocol), "split": split, "batches": batches}
    key = jax.random.fold_in(jax.random.key(seed), 0)
    rows: list[dict[str, Any]] = []
    for setting in track([None, *product(reads, parts, rates)], "Measuring"):
        rehearsal = None
        row: dict[str, Any] = {"reads": 0}
        if setting is not None:
            times, count, rate = setting
            rehearsal = Rehearsal(episodes.damage, times * count, episodes.reveal, parts=count, rate=rate)
            row = {"reads": times, "parts": count, "rate": rate, "steps": rehearsal.steps}
        began = time.perf_counter()
        errors = measure_errors(
            with_rehearsal(plain, rehearsal), episodes, key=key, metric=protocol.metric, batches=batches
        )
        rows.append({**row, **asdict(Spread.of(errors.read)), "seconds": time.perf_counter() - began})
        if out:
            write_whole({out: as_json({**about, "rows": rows, **provenance(seed=seed)})})
    table = Table("reads", "parts", "steps", "rate", "wrong values", title=f"{model}, {protocol.patterns} patterns")
    for row in rows:
        settings = (row["reads"], row.get("parts", ""), row.get("steps", ""), row.get("rate", ""))
        table.add_row(*map(str, settings), f"{row['mean']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
