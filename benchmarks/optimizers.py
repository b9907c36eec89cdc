"""AdamW, Muon and SOAP at several learning rates, weight decay, damaged copies to learn from, and networks, on small
drawings.

    python benchmarks/optimizers.py --optimizers muon --rates 3e-3 1e-2 --out muon.json
    python benchmarks/optimizers.py --optimizers muon --rates 1e-2 --copies 1 4 --out copies.json
    python benchmarks/optimizers.py --optimizers muon --rates 1e-2 --decays 0 0.3 --out decay.json
    python benchmarks/optimizers.py --optimizers muon --rates 1e-2 --views 0 1 4 --out mixed.json

4 drawings of Omniglot, halved to 16×16, with a block of 8×8 drawn anew, in a convolutional network of a quarter of the
paper's width (8 channels): the first stage of a curriculum. Wrong pixels over held-out characters after each so many
updates, the learning rate falling to zero over the last half. One core takes some six minutes for each rate.
"""

import time
from itertools import product
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import PRNGKeyArray
from rich.progress import track

from ebmm.data import DATASETS
from ebmm.data.augmentation import Augmented
from ebmm.data.distortions import RandomBlock
from ebmm.data.episodes import Episodes
from ebmm.data.images import Images
from ebmm.energies import ResNetConv, ResNetMixed
from ebmm.files import as_json, write_whole
from ebmm.initial import new_model
from ebmm.interface import AbstractMemoryModel
from ebmm.provenance import provenance
from ebmm.training.settings import Optimizer, Settings, Stage
from ebmm.training.trainer import Trainer
from ebmm.training.update import episode_objective

PATTERNS, BLOCK, TESTS = 4, RandomBlock(8), 64


def halved(split: str) -> Images:
    """A pixel is ink where at least half of its four are."""
    images, labels = DATASETS["omniglot"].images(split).as_arrays()
    pixels = images.reshape(-1, 16, 2, 16, 2, 1).mean((2, 4)) >= 0.5
    return Images.packed(pixels, labels, levels=1)


@eqx.filter_jit
def held_out_error(model: AbstractMemoryModel, test: Episodes) -> jax.Array:
    keys = jax.random.split(jax.random.key(7), TESTS)
    return jnp.mean(jax.lax.map(lambda key: episode_objective(model, test, "hamming", key)[1], keys))


def network(views: int, *, key: PRNGKeyArray) -> ResNetConv | ResNetMixed:
    """The paper's, or one with so many views."""
    sizes: dict[str, Any] = {"image_shape": (16, 16, 1), "memory_width": 4, "channels": 8, "hidden": 32, "dense": 256}
    return ResNetMixed(**sizes, views=views, key=key) if views else ResNetConv(**sizes, key=key)


def trained(settings: Settings, views: int, seed: int, every: int) -> list[dict[str, float]]:
    """The curve of one run."""
    train, test = Augmented(halved("train")), Episodes(halved("test"), BLOCK, PATTERNS)
    network_key, batch_key, train_key = jax.random.split(jax.random.key(seed), 3)
    model = new_model(network(views, key=network_key), train.draw(64, key=batch_key))
    trainer = Trainer.start(
        model,
        lambda patterns: Episodes(train, BLOCK, patterns, copies=settings.copies),
        settings,
        metric="hamming",
        key=train_key,
    )
    errors, curve = [], []
    for point in trainer.train():
        errors.append(point["error"])
        if point["update"] % every == 0:
            held_out = float(held_out_error(trainer.learner.best, test))
            recent = float(np.nanmean(errors[-every:]))
            curve.append({"update": point["update"], "error": recent, "held_out": held_out})
    return curve


def main(
    optimizers: tuple[Optimizer, ...] = ("adamw", "muon"),
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2),
    copies: tuple[int, ...] = (1,),
    decays: tuple[float, ...] = (1e-6,),
    views: tuple[int, ...] = (0,),
    episodes: int = 8,
    updates: int = 1500,
    every: int = 250,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Args:
    optimizers: To compare.
    rates: Learning rates.
    copies: Damaged copies of each drawing in an episode.
    decays: Weight decay.
    views: That the memory has of an image in `ResNetMixed`; 0 is the paper's `ResNetConv`.
    episodes: In an update.
    updates: Of each run.
    every: Updates between two looks at held-out characters.
    seed: Of networks and batches.
    out: Where to save it all as JSON.
    """
    rows: list[dict[str, Any]] = []
    runs = list(product(optimizers, rates, copies, decays, views))
    for optimizer, rate, of_each, decay, seen in track(runs, "Training"):
        settings = Settings(
            updates=updates,
            stages=(Stage(PATTERNS, episodes, updates),),
            optimizer=optimizer,
            learning_rate=rate,
            copies=of_each,
            weight_decay=decay,
            group=4,
        )
        about = {"optimizer": optimizer, "rate": rate, "copies": of_each, "weight_decay": decay, "views": seen}
        began = time.perf_counter()
        curve = trained(settings, seen, seed, every)
        rows.append(about | {"seconds": time.perf_counter() - began, "curve": curve})
        print(optimizer, rate, of_each, decay, seen, curve[-1], flush=True)
        if out:
            write_whole(
                {out: as_json({"updates": updates, "episodes": episodes, **provenance(seed=seed), "rows": rows})}
            )


if __name__ == "__main__":
    tyro.cli(main)
