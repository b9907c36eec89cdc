"""Time one meta-update of the convolutional network with each way to lower a convolution.

    python benchmarks/convolution.py --patterns 64 --episodes 1 4 --out convolution.json

The rows of one run are comparable with each other; `layers.FASTEST` holds the winner of each platform.
"""

import itertools
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro

from ebmm import layers, new_model, reconstruction_loss
from ebmm.energies import ResNetConv
from ebmm.loops import Loop
from ebmm.provenance import provenance


def measure(lowering: str, unroll: bool, *, episodes: int, patterns: int, repeats: int) -> dict[str, Any]:
    layers.FASTEST[jax.default_backend()] = lowering
    stored, queries = jax.random.bernoulli(jax.random.key(0), 0.1, (2, episodes, patterns, 32, 32, 1)).astype(float)
    model = replace(new_model(ResNetConv(key=jax.random.key(1)), stored[0]), loop=Loop(unroll=unroll))

    def mean_loss(model: Any, stored: jax.Array, queries: jax.Array) -> jax.Array:
        return jnp.mean(jax.vmap(lambda x, q: reconstruction_loss(model, x, q))(stored, queries))

    update: Any = eqx.filter_jit(eqx.filter_value_and_grad(mean_loss))
    start = time.perf_counter()
    compiled = update.lower(model, stored, queries).compile()
    compile_seconds = time.perf_counter() - start
    loss, _ = jax.block_until_ready(compiled(model, stored, queries))
    start = time.perf_counter()
    for _ in range(repeats):
        jax.block_until_ready(compiled(model, stored, queries))
    return {
        "lowering": lowering,
        "unroll": unroll,
        "episodes": episodes,
        "patterns": patterns,
        "milliseconds": round((time.perf_counter() - start) / repeats * 1e3, 2),
        "compile_seconds": round(compile_seconds, 1),
        "loss": float(loss),
    }


def main(
    patterns: int = 16,
    episodes: tuple[int, ...] = (1,),
    lowerings: tuple[str, ...] = ("patches", "xla"),
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
