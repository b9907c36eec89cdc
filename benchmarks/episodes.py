"""What it costs to draw and damage episodes inside the compiled step, as a share of one meta-update.

    python benchmarks/episodes.py omniglot --patterns 64 --episodes 4 --out episodes.json

`milliseconds` of the update include drawing. Drawing is timed on its own too, which is more than it costs
inside, and `sorting` is how long JAX's own way to draw without repeats takes.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro

from ebmm import new_model, reconstruction_loss
from ebmm.data.episodes import Episodes
from ebmm.data.images import Images
from ebmm.energies import GatedRNN, ResNetConv
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.interface import AbstractMemoryModel
from ebmm.provenance import provenance


def milliseconds(work: Callable[[jax.Array], Any], repeats: int) -> float:
    """The median of several runs, after one that compiles."""
    times = []
    for index in range(repeats + 1):
        key = jax.block_until_ready(jax.random.key(index))
        start = time.perf_counter()
        jax.block_until_ready(work(key))
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times[1:])[repeats // 2]


@eqx.filter_jit
def draw(sample: Episodes, episodes: int, key: jax.Array) -> Any:
    return jax.vmap(lambda k: sample(k))(jax.random.split(key, episodes))


@eqx.filter_jit
def draw_by_sorting(size: int, patterns: int, episodes: int, key: jax.Array) -> Any:
    keys = jax.random.split(key, episodes)
    return jax.vmap(lambda k: jax.random.choice(k, size, (patterns,), replace=False))(keys)


@eqx.filter_jit
def update(model: AbstractMemoryModel, sample: Episodes, episodes: int, key: jax.Array) -> Any:
    def mean_loss(model: AbstractMemoryModel) -> jax.Array:
        def loss(key: jax.Array) -> jax.Array:
            patterns, queries, known = sample(key)
            return reconstruction_loss(model, patterns, queries, known=known)

        return jnp.mean(jax.vmap(loss)(jax.random.split(key, episodes)))

    return eqx.filter_value_and_grad(mean_loss)(model)


def main(
    on: Annotated[Literal["omniglot", "omniglot-sample", "strings"], tyro.conf.Positional] = "omniglot-sample",
    *,
    patterns: int = 16,
    episodes: tuple[int, ...] = (1,),
    split: str = "test",
    repeats: int = 5,
    out: Path | None = None,
) -> None:
    sample = PROTOCOLS[on].episodes(split)
    sample = Episodes(sample.source, sample.damage, patterns, reveal=sample.reveal)
    energy = GatedRNN(key=jax.random.key(1)) if on == "strings" else ResNetConv(key=jax.random.key(1))
    model = new_model(energy, sample(jax.random.key(2)).patterns, domain=sample.source.domain)
    rows = []
    for count in episodes:
        drawing = milliseconds(lambda key, count=count: draw(sample, count, key), 5 * repeats)
        whole = milliseconds(lambda key, count=count: update(model, sample, count, key), repeats)
        row: dict[str, Any] = {"on": on, "patterns": patterns, "episodes": count, "drawing_milliseconds": drawing}
        row |= {"update_milliseconds": whole, "share": drawing / whole}
        if isinstance(sample.source, Images):
            size = len(sample.source)
            sorting = milliseconds(lambda key, c=count, n=size: draw_by_sorting(n, patterns, c, key), 5 * repeats)
            row |= {"images": size, "sorting_milliseconds": sorting}
        rows.append({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()})
        print(rows[-1], flush=True)
        if out:
            out.write_text(json.dumps({**provenance(seed=0), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
