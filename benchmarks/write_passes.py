"""One meta-update with the gradients of the writing loss from one pass through the network, and from two.

    python benchmarks/write_passes.py --networks rnn conv --patterns 64 8 --out write-passes.json

Writing needs ∇_θ E, the slopes v = ∇ₓE, and the derivative of ∇_θ E in their direction. `core.writing` linearises the
pass that gives the first two; before, the slopes had a pass of their own. Both are compiled, and timed in turns.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array
from rich.console import Console
from rich.table import Table

from ebmm import reconstruction_loss
from ebmm.cli.bench import subject
from ebmm.core import writing
from ebmm.core.energy import Energy, Layers, Where, with_layers
from ebmm.files import as_json, write_whole
from ebmm.loops import Loop
from ebmm.provenance import provenance

one_pass = writing.writing_gradients


def two_passes(energy: Energy, where: Where, layers: Layers, patterns: Array) -> tuple[Layers, Layers]:
    """The slopes first, then ∇_θ E and its derivative in their direction."""

    def mean_energy(layers: Layers, patterns: Array) -> Array:
        return jnp.mean(jax.vmap(with_layers(energy, where, layers))(patterns))

    slopes = len(patterns) * jax.grad(mean_energy, argnums=1)(layers, patterns)
    of_energy, half = jax.jvp(lambda x: jax.grad(mean_energy)(layers, x), (patterns,), (slopes,))
    return of_energy, jax.tree.map(lambda h: 2 * h, half)


def compiled(gradients: Any, network: str, patterns: int, unroll: bool) -> tuple[Callable[[], Any], dict[str, float]]:
    """A meta-update as a function of nothing, and what the compiler says of it."""
    model, sample = subject(network, patterns)
    model = replace(model, loop=Loop(unroll=unroll, keep="products"))
    episode = sample(jax.random.key(0))
    writing.writing_gradients = gradients
    jax.clear_caches()  # what was traced with the other way
    began = perf_counter()
    gradient: Any = eqx.filter_jit(eqx.filter_value_and_grad(reconstruction_loss))
    program = gradient.lower(model, episode.patterns, episode.queries, known=episode.known).compile()
    seconds = perf_counter() - began
    inner = program.compiled
    told = {
        "gigaflop": inner.cost_analysis()["flops"] / 1e9,
        "gigabytes_of_scratch": inner.memory_analysis().temp_size_in_bytes / 1e9,
        "compile_seconds": seconds,
    }
    run = lambda: jax.block_until_ready(program(model, episode.patterns, episode.queries, known=episode.known))  # noqa: E731
    return run, told


def main(
    networks: tuple[Literal["rnn", "conv"], ...] = ("rnn",),
    patterns: tuple[int, ...] = (64,),
    unroll: bool = True,
    repeats: int = 7,
    out: Path | None = None,
) -> None:
    """Args:
    networks: The paper's gated RNN on strings, or its convolutional network on drawings.
    patterns: In an episode of each network.
    unroll: Loops unrolled: the compiler counts the operations of a loop once.
    repeats: Turns.
    out: Where to save it all as JSON.
    """
    rows: list[dict[str, Any]] = []
    table = Table("network", "patterns", "passes", "milliseconds", "GFLOP", "scratch, GB", "compiled in s")
    for network, count in zip(networks, patterns, strict=True):
        ways = {"two": two_passes, "one": one_pass}
        made = {name: compiled(way, network, count, unroll) for name, way in ways.items()}
        times: dict[str, list[float]] = {name: [] for name in made}
        results = {name: run() for name, (run, _) in made.items()}
        for _ in range(repeats):
            for name, (run, _) in made.items():
                began = perf_counter()
                run()
                times[name].append(1e3 * (perf_counter() - began))
        apart = [np.concatenate([np.ravel(x) for x in jax.tree.leaves(results[name][1])]) for name in made]
        difference = float(np.linalg.norm(apart[0] - apart[1]) / np.linalg.norm(apart[0]))
        for name, (_, told) in made.items():
            row = {"network": network, "patterns": count, "passes": name, "unroll": unroll, **told}
            row |= {"milliseconds": float(np.median(times[name])), "relative_difference": difference}
            rows.append(row)
            numbers = (row["milliseconds"], told["gigaflop"], told["gigabytes_of_scratch"], told["compile_seconds"])
            table.add_row(network, str(count), name, *(f"{number:.3g}" for number in numbers))
    if out:
        write_whole({out: as_json({"rows": rows, **provenance(seed=0)})})
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
