"""AdamW, Muon and SOAP on strings, by the network, its width, its read steps and the damaged copies to learn from.

    python benchmarks/optimizers_on_strings.py --units 256 --optimizers adamw muon --out strings.json
    python benchmarks/optimizers_on_strings.py --units 64 --optimizers adamw --copies 1 4 --updates 2000
    python benchmarks/optimizers_on_strings.py --units 64 --optimizers adamw --copies 4 --updates 2000 --views 0 1 2

16 strings of 32 bits in a gated RNN with 528 floats of memory, half of the bits drawn anew. Wrong bits over test
batches after so many updates, the learning rate falling to zero over the last half or another share. With 256 units one
core takes some two minutes for 1,000 updates.
"""

import time
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from jaxtyping import PRNGKeyArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ebmm.data.binary import strings
from ebmm.data.distortions import ResampledBits
from ebmm.data.episodes import Episodes
from ebmm.energies import GatedRNN, MixedRNN
from ebmm.evaluation.errors import measure_errors
from ebmm.files import as_json, write_whole
from ebmm.initial import new_model
from ebmm.provenance import provenance
from ebmm.training.settings import Optimizer, Precision, Settings, Stage
from ebmm.training.trainer import Trainer

PATTERNS, BITS, MEMORY_WIDTH = 16, 32, 16


def network(units: int, views: int, *, key: PRNGKeyArray) -> GatedRNN | MixedRNN:
    """The paper's, or one with so many views."""
    if not views:
        return GatedRNN(bits=BITS, memory_width=MEMORY_WIDTH, hidden=units, key=key)
    return MixedRNN(bits=BITS, memory_width=MEMORY_WIDTH, hidden=units, views=views, key=key)


def trained(units: int, views: int, read_steps: int, settings: Settings, *, seed: int, batches: int) -> dict[str, Any]:
    """The error of one run, in training over stretches of 100 updates and in the end over test batches."""
    network_key, batch_key, train_key = jax.random.split(jax.random.key(seed), 3)
    source = strings(BITS)
    sample = Episodes(source, ResampledBits(0.5), PATTERNS, reveal=True)
    with_copies = Episodes(source, ResampledBits(0.5), PATTERNS, reveal=True, copies=settings.copies)
    energy, batch = network(units, views, key=network_key), source.draw(PATTERNS, key=batch_key)
    model = new_model(energy, batch, domain=source.domain, read_steps=read_steps)
    trainer = Trainer.start(model, lambda _: with_copies, settings, metric="hamming", key=train_key)
    began = time.perf_counter()
    errors = [point["error"] for point in trainer.train()]
    seconds = time.perf_counter() - began
    curve = [float(np.nanmean(errors[start : start + 100])) for start in range(0, len(errors), 100)]
    key = jax.random.key(99)
    found = measure_errors(trainer.learner.best, sample, key=key, metric="hamming", batches=batches)
    return {"seconds": seconds, "error_by_100_updates": curve, "wrong_bits": float(np.mean(found.read))}


def main(
    units: tuple[int, ...] = (64, 256),
    views: tuple[int, ...] = (0,),
    read_steps: tuple[int, ...] = (5,),
    optimizers: tuple[Optimizer, ...] = ("adamw", "muon"),
    rates: tuple[float, ...] = (3e-3,),
    copies: tuple[int, ...] = (1,),
    decays: tuple[float, ...] = (0.5,),
    averages: tuple[float, ...] = (0.0,),
    updates: int = 1000,
    episodes: int = 4,
    precision: Precision = "float32",
    batches: int = 300,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Args:
    units: Of the hidden state.
    views: That the memory has of a string in `MixedRNN`; 0 is the paper's `GatedRNN`.
    read_steps: To learn; there are five write steps at any rate.
    optimizers: To compare.
    rates: Learning rates.
    copies: Damaged copies of each string in an episode.
    decays: Over this last share of a run the learning rate falls to zero.
    averages: The weights that are kept are a running average with this decay; 0 keeps the last.
    updates: Of each run.
    episodes: In an update.
    precision: Of the energy's own arithmetic.
    batches: Of test strings, in the end.
    seed: Of networks and batches.
    out: Where to save it all as JSON.
    """
    rows: list[dict[str, Any]] = []
    title = f"After {updates:,} updates"
    varied = ("units", "views", "read_steps", "optimizer", "learning_rate", "decay", "average", "copies")
    table = Table(*(name.replace("_", " ") for name in varied), "wrong bits", "seconds", title=title)
    runs = list(product(units, views, read_steps, optimizers, rates, decays, averages, copies))
    for width, seen, reads, optimizer, rate, decay, average, of_each in track(runs, "Training"):
        settings = Settings(
            updates=updates,
            stages=(Stage(PATTERNS, episodes, updates),),
            optimizer=optimizer,
            learning_rate=rate,
            decay=decay,
            average=average or None,
            precision=precision,
            copies=of_each,
            patience=None,
        )
        found = trained(width, seen, reads, settings, seed=seed, batches=batches)
        run = dict(zip(varied, (width, seen, reads, optimizer, rate, decay, average, of_each), strict=True))
        rows.append({**run, **found})
        told = (f"{value:g}" if isinstance(value, float) else str(value) for value in run.values())
        table.add_row(*told, f"{found['wrong_bits']:.2f}", f"{found['seconds']:.0f}")
        if out:
            report = {"patterns": PATTERNS, "bits": BITS, "updates": updates, "episodes": episodes}
            report |= {"precision": precision, "batches": batches, "rows": rows}
            write_whole({out: as_json({**report, **provenance(seed=seed)})})
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
