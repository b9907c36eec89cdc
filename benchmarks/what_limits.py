"""What keeps a trained memory from fewer errors: reading, writing, or the noise of its meta-gradient?

    python benchmarks/what_limits.py binary-rnn --on strings --out limits.json
    python benchmarks/what_limits.py omniglot-conv-9k --on omniglot --split train

Three looks at one model. How many values are wrong in a pattern: few in all, or many in some. Whether more read steps
than it was trained with help. And how alike the meta-gradients of two episodes are, by what the two have in common:
where their cosine is near zero, an update of a few episodes is mostly noise, and where it stays low although both have
stored the same patterns, the noise is due to the damage.
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
from ebmm.data.episodes import Episodes
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.files import as_json, write_whole
from ebmm.longer import in_steps
from ebmm.loops import Loop
from ebmm.provenance import provenance

PERCENTILES = (0, 5, 25, 50, 75, 95, 100)
"""Of the wrong values of a pattern."""


def main(
    model: Annotated[str, tyro.conf.Positional] = "binary-rnn",
    on: str = "strings",
    split: str = "test",
    patterns: int = 64,
    read_steps: int = 15,
    batches: int = 24,
    episodes: int = 10,
    out: Path | None = None,
) -> None:
    """Args:
    model: A bundled model by its name, or the folder of a saved one.
    on: What to store and how to damage it, one of the protocols.
    split: Part of the dataset.
    patterns: In an episode.
    read_steps: To read with, the last learned step repeated.
    batches: To count wrong values over.
    episodes: To compare gradients of.
    out: Where to save it all as JSON.
    """
    memory = Memory.from_pretrained(model).model
    assert isinstance(memory, EBMM)
    sample = replace(PROTOCOLS[on], patterns=patterns).episodes(split)
    wrong = np.stack([_wrong(memory, sample, read_steps, jax.random.key(b)) for b in track(range(batches), "Reading")])
    learned = len(memory.read_rates.rates())
    in_the_end = wrong[:, learned - 1].ravel()
    report = {
        "model": model,
        "on": on,
        "split": split,
        "patterns": patterns,
        "batches": batches,
        "episodes": episodes,
        "share_of_patterns_without_an_error": float(np.mean(in_the_end == 0)),
        "wrong_values_by_percentile": {str(each): float(np.percentile(in_the_end, each)) for each in PERCENTILES},
        "wrong_values_by_read_step": wrong.mean((0, 2)).tolist(),
        "read_steps_learned": learned,
        "cosines_of_gradients": cosines(memory, sample, episodes),
    }
    if out:
        write_whole({out: as_json({**report, **provenance(seed=0)})})
    show(report)


@eqx.filter_jit
def _wrong(model: EBMM, sample: Episodes, steps: int, key: Array) -> Array:
    """Wrong values of every pattern after every read step."""
    assert model.domain is not None
    middle = sum(model.domain) / 2
    patterns, queries, known = sample(key)
    out = in_steps(model, steps).read(model.write(patterns), queries, known=known)
    differ = (out.trajectory > middle) != (patterns > middle)
    return jnp.sum(differ.reshape(*differ.shape[:2], -1), -1)


def cosines(model: EBMM, sample: Episodes, episodes: int) -> dict[str, dict[str, float]]:
    """Of the gradients of two episodes' losses, mean and standard error, by what the episodes share.

    "Place of the damage" has other values in the same places; "the rest damaged" has new values where it was sound, and
    is for readers who are told what is sound.
    """
    parameters, rest = eqx.partition(replace(model, loop=Loop(keep="products")), eqx.is_inexact_array)
    assert model.domain is not None
    low, high = model.domain

    @jax.jit
    def gradient(patterns: Array, queries: Array, known: Array | None) -> Array:
        def loss(parameters: Any) -> Array:
            return eqx.combine(parameters, rest).loss(patterns, queries, known=known)[0]

        found = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(jax.grad(loss)(parameters))])
        return found / jnp.linalg.norm(found)

    @jax.jit
    def damages(patterns: Array, key: Array) -> tuple[Array, Array]:
        keys = jax.random.split(key, len(patterns))
        return jax.vmap(lambda pattern, key: sample.damage(pattern, key=key, domain=(low, high)))(patterns, keys)

    first, found = [], {}
    for episode in track(range(episodes), "Gradients"):
        patterns, queries, sound = sample.with_mask(jax.random.key(1000 + episode))
        other, other_sound = damages(patterns, jax.random.key(2000 + episode))
        guessed = jnp.where(jax.random.bernoulli(jax.random.key(3000 + episode), 0.5, queries.shape), high, low)
        pairs = {
            "patterns": (other, other_sound),
            "patterns and place of the damage": (jnp.where(sound, patterns, guessed), sound),
        }
        if sample.reveal:
            pairs["patterns, the rest damaged"] = (jnp.where(sound, guessed, patterns), ~sound)
        base = np.asarray(gradient(patterns, queries, sound if sample.reveal else None))
        for name, (changed, mask) in pairs.items():
            with_changed = gradient(patterns, changed, mask if sample.reveal else None)
            found.setdefault(name, []).append(float(base @ np.asarray(with_changed)))
        first.append(base)
    found = {"nothing": [float(a @ b) for a, b in combinations(first, 2)]} | found
    return {
        name: {"mean": float(np.mean(values)), "error": float(np.std(values) / len(values) ** 0.5)}
        for name, values in found.items()
    }


def show(report: dict[str, Any]) -> None:
    console = Console()
    table = Table("read step", "wrong values", title=f"{report['model']}, {report['patterns']} patterns")
    for step, value in enumerate(report["wrong_values_by_read_step"], 1):
        table.add_row(str(step), f"{value:.2f}" + (" (learned)" if step == report["read_steps_learned"] else ""))
    console.print(table)
    shares = report["wrong_values_by_percentile"]
    console.print(
        "Wrong values of a pattern: " + ", ".join(f"{share} %: {value:.0f}" for share, value in shares.items())
    )
    table = Table("two episodes share", "cosine of their gradients")
    for name, value in report["cosines_of_gradients"].items():
        table.add_row(name, f"{value['mean']:.3f} ± {value['error']:.3f}")
    console.print(table)


if __name__ == "__main__":
    tyro.cli(main)
