"""How fewer patterns than a model was trained for are recalled: written as learned, and with steps shortened in
several ways.

    python benchmarks/fewer_patterns.py binary-rnn --on strings --batches 20 --out fewer.json
    python benchmarks/fewer_patterns.py omniglot-conv-9k --on omniglot-sample --batches 8 --out fewer.json
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ebmm import EBMM, Memory
from ebmm.evaluation.errors import measure_errors
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.files import as_json, write_whole
from ebmm.provenance import provenance

WAYS = {
    # Exponents of N / N₀ by which the rates of energy, gradient and prior are multiplied. `Memory.write` takes 1, 1, 0.
    "as learned": (0.0, 0.0, 0.0),
    "1, 1, 0": (1.0, 1.0, 0.0),
    "1, 1, 1": (1.0, 1.0, 1.0),
    "½, ½, 0": (0.5, 0.5, 0.0),
    "1, 1.5, 0": (1.0, 1.5, 0.0),
    "1, 2, 0": (1.0, 2.0, 0.0),
}


def main(
    model: Annotated[str, tyro.conf.Positional],
    on: str = "strings",
    counts: tuple[int, ...] = (1, 4, 8, 16, 24, 32, 48, 56),
    batches: int = 20,
    out: Path | None = None,
) -> None:
    memory = Memory.from_pretrained(model)
    assert isinstance(memory.model, EBMM)
    assert memory.trained is not None
    load, key = memory.trained["patterns"], jax.random.fold_in(jax.random.key(0), 0)
    rows: list[dict[str, Any]] = []
    for count in track(counts, "Measuring"):
        protocol = replace(PROTOCOLS[on], patterns=count)
        row: dict[str, Any] = {"patterns": count}
        for name, exponents in WAYS.items():
            rates = memory.model.write_rates.scaled((count / load) ** jnp.array(exponents))
            changed = eqx.tree_at(lambda each: each.write_rates, memory.model, rates)
            errors = measure_errors(changed, protocol.episodes(), key=key, metric=protocol.metric, batches=batches)
            row[name] = float(np.mean(errors.read))
        rows.append(row)
        if out:
            about = {"model": model, "on": on, "trained_for": load, "batches": batches}
            write_whole({out: as_json({**about, "rows": rows, **provenance(seed=0)})})
    table = Table("patterns", *WAYS, title=f"{model}, wrong values by the exponents of N / {load}")
    for row in rows:
        table.add_row(str(row["patterns"]), *(f"{row[name]:.2f}" for name in WAYS))
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
