"""`ebmm recall`: store patterns, damage them, get them back, and look at them."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ..data.binary import string_episode
from ..data.episodes import Episode
from ..initial import new_model
from ..interface import Readout
from ..memory import Memory
from ..training.loop import meta_learning
from .output import save_figure

PATTERNS, BITS = 8, 32
TILE = (4, 8)  # how a string of 32 bits is drawn


def recall(*, updates: int = 2000, seed: int = 0, picture: Path = Path("recall.png")) -> None:
    """Meta-learn a small memory, about a minute on two cores, then store and recall strings that it has never seen.

    Args:
        updates: Steps of meta-learning; with fewer it recalls less.
        seed: Of the network, of its training and of the strings.
        picture: Where to save the picture.
    """
    if updates < 1:
        raise SystemExit(f"--updates {updates}: expected at least 1.")
    if picture.suffix != ".png" or not picture.absolute().parent.is_dir():
        raise SystemExit(f"--picture {picture}: expected a name that ends in .png, in a folder that exists.")
    console = Console()
    *learning_keys, test_key = jax.random.split(jax.random.key(seed), 4)
    memory = small_memory(updates, *learning_keys)
    episode = string_episode(test_key, patterns=PATTERNS, bits=BITS)
    written = memory.write(episode.patterns)
    out = written.read(episode.queries, known=episode.known)
    energies = np.asarray(written.energy(episode.patterns))
    write_seconds = seconds(lambda: memory.write(episode.patterns).state)
    read_seconds = seconds(lambda: written.read(episode.queries, known=episode.known))
    console.print(summary(written, episode, out, energies, write_seconds, read_seconds))
    save_picture(console, episode, out, energies, picture)


def small_memory(updates: int, network_key: Any, batch_key: Any, learning_key: Any) -> Memory:
    """An MLP with a writable first layer, meta-learned on random strings."""
    sample = partial(string_episode, patterns=PATTERNS, bits=BITS)
    network = eqx.nn.MLP(BITS, "scalar", width_size=128, depth=2, activation=jnp.tanh, key=network_key)
    model = new_model(network, sample(batch_key).patterns, where=lambda mlp: mlp.layers[0], domain=(-1.0, 1.0))
    learning = meta_learning(model, sample, updates=updates, key=learning_key)
    for model, _ in track(learning, "Meta-learning a small memory", total=updates):  # noqa: B007
        pass
    return Memory(model, "small-mlp")


def seconds(work: Callable[[], Any]) -> float:
    """How long something takes that has been compiled before."""
    start = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - start


def summary(
    memory: Memory, episode: Episode, out: Readout, energies: np.ndarray, write_seconds: float, read_seconds: float
) -> Table:
    def wrong(patterns: Any) -> str:
        return f"{float(jnp.sum(jnp.sign(patterns) != episode.patterns, axis=-1).mean()):.2f}"

    assert out.energies is not None
    table = Table("", "wrong bits of 32", "energy", title=f"{PATTERNS} strings written and read back (means)")
    table.add_row("damaged", wrong(episode.queries), f"{out.energies[0].mean():.3f}")
    for step, (patterns, energy) in enumerate(zip(out.trajectory, out.energies[1:], strict=True), start=1):
        table.add_row(f"read step {step}", wrong(patterns), f"{energy.mean():.3f}")
    table.add_row("stored", wrong(episode.patterns), f"{energies.mean():.3f}")
    table.caption = (
        f"{memory.memory_size:,} floats of memory ({memory.memory_size * 4 / 1024:.1f} KB); "
        f"written in {write_seconds * 1e3:.1f} ms, read in {read_seconds * 1e3:.1f} ms"
    )
    return table


def save_picture(console: Console, episode: Episode, out: Readout, energies: np.ndarray, path: Path) -> None:
    try:
        from ..figures import reading_figure
    except ImportError:
        console.print("For the picture, install matplotlib: pip install matplotlib")
        return
    assert out.energies is not None
    stored, damaged, trajectory = (
        np.asarray(x).reshape(*x.shape[:-1], *TILE) for x in (episode.patterns, episode.queries, out.trajectory)
    )
    save_figure(reading_figure(stored, damaged, trajectory, np.asarray(out.energies), energies), path)
    console.print(f"Picture: {path}", soft_wrap=True)
