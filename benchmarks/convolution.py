"""Time one meta-update of the convolutional network with each way to lower a convolution.

    python benchmarks/convolution.py --patterns 64 --episodes 1 4 --out convolution.json

The rows of one run are comparable with each other; `layers.FASTEST` holds the winner of each platform.
"""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import tyro

from ebmm import layers
from ebmm.cli.bench import subject
from ebmm.loops import Loop
from ebmm.provenance import provenance
from ebmm.training.speed import update_speed


def measure(lowering: str, unroll: bool, *, episodes: int, patterns: int, repeats: int) -> dict[str, Any]:
    layers.FASTEST[jax.default_backend()] = lowering
    jax.clear_caches()  # the trace of the lowering before
    model, sample = subject("conv", patterns)
    model = replace(model, loop=Loop(unroll=unroll))
    row = update_speed(model, sample, episodes=episodes, group=episodes, work=0.0, repeats=repeats)
    unknown = ("gigaflop", "teraflops", "profile")
    return {"lowering": lowering, "unroll": unroll} | {k: v for k, v in row.items() if k not in unknown}


def main(
    patterns: int = 16,
    episodes: tuple[int, ...] = (1,),
    lowerings: tuple[str, ...] = tuple(layers.LOWERINGS),
    unroll: tuple[bool, ...] = (False,),
    repeats: int = 3,
    out: Path | None = None,
) -> None:
    rows = []
    for count, lowering, unrolled in itertools.product(episodes, lowerings, unroll):
        rows.append(measure(lowering, unrolled, episodes=count, patterns=patterns, repeats=repeats))
        print(rows[-1], flush=True)
        if out:
            out.write_text(json.dumps({**provenance(seed=0), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
