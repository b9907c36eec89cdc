"""What keeps a trained memory of strings from fewer errors: reading, writing, or the noise of its meta-gradient?

    python benchmarks/what_limits_strings.py binary-rnn --out limits.json

Three looks at one model. How many bits are wrong in a string: few in all, or many in some. Whether more read steps than
it was trained with help. And how alike the meta-gradients of two episodes are, by what the two have in common: where
their cosine is near zero, an update of a few episodes is mostly noise.
"""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ebmm import EBMM, Memory
from ebmm.data.binary import strings
from ebmm.data.distortions import ResampledBits
from ebmm.data.episodes import Episodes
from ebmm.files import as_json, write_whole
from ebmm.longer import in_steps
from ebmm.loops import Loop
from ebmm.provenance import provenance


def main(
    model: Annotated[str, tyro.conf.Positional] = "binary-rnn",
    patterns: int = 64,
    read_steps: int = 15,
    batches: int = 24,
    episodes: int = 10,
    out: Path | None = None,
) -> None:
    """Args:
    model: A bundled model of strings by its name, or the folder of a saved one.
    patterns: In an episode.
    read_steps: To read with, the last learned step repeated.
    batches: To count wrong bits over.
    episodes: To compare gradients of.
    out: Where to save it all as JSON.
    """
    memory = Memory.from_pretrained(model).model
    assert isinstance(memory, EBMM)
    sample = Episodes(strings(memory.pattern_shape[0]), ResampledBits(0.5), patterns, reveal=True)
    wrong = np.stack([_wrong(memory, sample, read_steps, jax.random.key(b)) for b in track(range(batches), "Reading")])
    learned = len(memory.read_rates.rates())
    histogram = np.bincount(wrong[:, learned - 1].ravel()) / wrong[:, learned - 1].size
    report = {
        "model": model,
        "patterns": patterns,
        "batches": batches,
        "episodes": episodes,
        "share_of_strings_by_wrong_bits": histogram.tolist(),
        "wrong_bits_by_read_step": wrong.mean((0, 2)).tolist(),
        "read_steps_learned": learned,
        "cosines_of_gradients": cosines(memory, sample, episodes),
    }
    if out:
        write_whole({out: as_json({**report, **provenance(seed=0)})})
    show(report)


@eqx.filter_jit
def _wrong(model: EBMM, sample: Episodes, steps: int, key: Array) -> Array:
    """Wrong bits of every string after every read step."""
    patterns, queries, known = sample(key)
    out = in_steps(model, steps).read(model.write(patterns), queries, known=known)
    return jnp.sum((out.trajectory > 0) != (patterns > 0), -1)


def cosines(model: EBMM, sample: Episodes, episodes: int) -> dict[str, dict[str, float]]:
    """Of the gradients of two episodes' losses, mean and standard error, by what the episodes share."""
    parameters, rest = eqx.partition(replace(model, loop=Loop(keep="products")), eqx.is_inexact_array)

    @jax.jit
    def gradient(patterns: Array, queries: Array, known: Array) -> Array:
        def loss(parameters: Any) -> Array:
            return eqx.combine(parameters, rest).loss(patterns, queries, known=known)[0]

        found = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(jax.grad(loss)(parameters))])
        return found / jnp.linalg.norm(found)

    first, found = [], {name: [] for name in ("strings", "strings and known bits", "strings, the other half known")}
    for episode in track(range(episodes), "Gradients"):
        patterns, queries, known = sample(jax.random.key(1000 + episode))
        other_known = sample(jax.random.key(2000 + episode)).known
        assert known is not None
        assert other_known is not None
        base = np.asarray(gradient(patterns, queries, known))
        guessed = jnp.where(jax.random.bernoulli(jax.random.key(3000 + episode), 0.5, queries.shape), 1.0, -1.0)
        for name, mask in zip(found, (other_known, known, ~known), strict=True):
            other = gradient(patterns, jnp.where(mask, patterns, guessed), mask)
            found[name].append(float(base @ np.asarray(other)))
        first.append(base)
    found = {"nothing": [float(a @ b) for a, b in combinations(first, 2)]} | found
    return {
        name: {"mean": float(np.mean(values)), "error": float(np.std(values) / len(values) ** 0.5)}
        for name, values in found.items()
    }


def show(report: dict[str, Any]) -> None:
    console = Console()
    steps = report["wrong_bits_by_read_step"]
    table = Table("read step", "wrong bits", title=f"{report['model']}, {report['patterns']} strings")
    for step, value in enumerate(steps, 1):
        table.add_row(str(step), f"{value:.2f}" + (" (learned)" if step == report["read_steps_learned"] else ""))
    console.print(table)
    shares = report["share_of_strings_by_wrong_bits"]
    console.print("Strings by wrong bits: " + ", ".join(f"{count}: {share:.1%}" for count, share in enumerate(shares)))
    table = Table("two episodes share", "cosine of their gradients")
    for name, value in report["cosines_of_gradients"].items():
        table.add_row(name, f"{value['mean']:.3f} ± {value['error']:.3f}")
    console.print(table)


if __name__ == "__main__":
    tyro.cli(main)
