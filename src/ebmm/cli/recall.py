"""`ebmm recall`: store patterns, damage them, get them back, and look at them."""

import json
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import numpy as np
import tyro
from jaxtyping import PyTree
from rich.console import Console
from rich.table import Table

from ..checks import check_seed
from ..data import OMNIGLOT_SAMPLE
from ..data.binary import RandomBits
from ..data.distortions import distortion
from ..data.episodes import Episode, Episodes
from ..evaluation.errors import Watch
from ..memory import Memory, check_finite
from ..rehearsal import Rehearsal, with_rehearsal
from .load import load_warning
from .output import bar, check_place, has_matplotlib, save_figure, told_plainly

DEFAULT_MODEL = "omniglot-conv-9k"
PATTERNS = 64  # where the model does not say how many it was trained for
SHOWN = 8


def recall(
    *,
    model: str = DEFAULT_MODEL,
    patterns: int | None = None,
    damage: str | None = None,
    rehearse: int | None = None,
    seed: int = 0,
    picture: Path = Path("recall.png"),
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Store patterns in a memory, damage them, get them back, and draw it.

    A model of drawings stores characters that come with the package and that it was not trained on; a model of
    strings stores random bits.

    Args:
        model: Name of a bundled model, or folder of a saved one.
        patterns: How many to store; as many as the model was trained for, if left out.
        damage: block:SIZE, block:SIZE:noise (or :low, :high), salt-and-pepper:RATE, bits:SHARE, several with + (all) or
            with / (one for each pattern); if left out, block:16 for drawings and bits:0.5 for strings.
        rehearse: Steps of practising the reading under this damage after the write, such as 320.
        seed: Of the patterns and of the damage.
        picture: Where to save the picture.
        as_json: Print one JSON object and nothing else.
    """
    console = Console(stderr=as_json)
    with told_plainly():
        draws = has_matplotlib()
        check_place("--picture", picture, ".png" if draws else picture.suffix)
        check_seed(seed)
        memory = Memory.from_pretrained(model)
        count = (memory.trained or {}).get("patterns", PATTERNS) if patterns is None else patterns
        episodes = episodes_for(memory, count, damage)
        eqx.filter_eval_shape(episodes, jax.random.key(0))  # refuses what does not fit
        rehearsal = None if rehearse is None else Rehearsal(episodes.damage, rehearse, episodes.reveal)
        with_rehearsal(memory.model, rehearsal)  # so does this
        warning = load_warning(memory, count)
        if warning:
            console.print(warning, highlight=False)
        told = console.status("Storing and recalling; the first time, compiling takes most of it")
        with nullcontext() if rehearsal else told:  # a rehearsal has a bar
            watch = bar(console, "Storing and practising")
            recalled = recalled_from(memory, episodes, seed, rehearsal=rehearsal, watch=watch)
        if draws:
            from ..figures import recall_figure

            save_figure(recall_figure(**recalled.shown()), picture)
    place = picture if draws else None
    if as_json:
        print_json(recalled, place)
        return
    console.print(recalled.table())
    advice = "For the picture, install matplotlib: pip install 'ebmm[demo]'"
    console.print(advice if place is None else f"Picture: {place}", soft_wrap=True)


def episodes_for(memory: Memory, patterns: int, damage: str | None) -> Episodes:
    """What this model can be shown with: bundled drawings, or random strings, of which it is told what is sound."""
    shape, domain = memory.model.pattern_shape, memory.model.domain
    if shape == OMNIGLOT_SAMPLE.pattern_shape and domain == (0.0, 1.0):
        return Episodes(OMNIGLOT_SAMPLE.images("test"), distortion(damage or "block:16"), patterns)
    if len(shape) == 1 and domain is not None:
        source = RandomBits(pattern_shape=shape, domain=domain)
        return Episodes(source, distortion(damage or "bits:0.5"), patterns, reveal=True)
    raise ValueError(
        f"{memory.name} stores patterns of shape {shape} with values in {domain}; expected a model of drawings of "
        "32×32 pixels or of strings. Others: ebmm evaluate."
    )


@dataclass(frozen=True)
class Recalled:
    """What was stored, asked and recalled, as NumPy arrays, and how long it took."""

    memory: Memory
    damage: str
    rehearsal: Rehearsal | None
    episode: Any
    trajectory: np.ndarray
    energies: np.ndarray | None
    stored_energies: np.ndarray | None
    write_seconds: float
    read_seconds: float

    def wrong(self, patterns: Any) -> np.ndarray:
        """The values of each pattern on the wrong side of the middle of the domain; one that is no number is wrong."""
        assert self.memory.model.domain is not None
        middle = sum(self.memory.model.domain) / 2
        wrong = ((patterns > middle) != (self.episode.patterns > middle)) | np.isnan(patterns)
        return wrong.reshape(len(patterns), -1).sum(axis=1)

    def table(self) -> Table:
        memory, count = self.memory, len(self.episode.patterns)
        is_string = len(memory.model.pattern_shape) == 1
        what, values = ("strings", "bits") if is_string else ("characters", "pixels")
        size = math.prod(memory.model.pattern_shape)
        rehearsed = "" if self.rehearsal is None else f" with {self.rehearsal.steps} steps of rehearsal"
        compiled = "" if self.rehearsal is None else ", compiling included"
        table = Table(
            title=f"{count} {what} written to {memory.name}{rehearsed} "
            f"and read back from copies damaged by {self.damage}",
            caption_justify="left",
        )
        table.add_column("")
        for column in (f"wrong {values} of {size:,}", "energy"):
            table.add_column(column, justify="right")
        energies = [None] * (len(self.trajectory) + 1) if self.energies is None else list(self.energies)
        steps = [f"read step {step}" for step in range(1, len(energies))]
        rows = zip(
            ["damaged", *steps, "stored"],
            [self.episode.queries, *self.trajectory, self.episode.patterns],
            [*energies, self.stored_energies],
            strict=True,
        )
        for name, patterns, energy in rows:
            table.add_row(name, f"{self.wrong(patterns).mean():.1f}", "" if energy is None else f"{energy.mean():.2f}")
        floats = memory.memory_size
        table.caption = (
            f"Means. Memory: {floats:,} floats, {4 * floats:,} bytes, {32 * floats / count:,.0f} bits a pattern.\n"
            f"Written in {self.write_seconds:.2f} s{compiled}, read in {self.read_seconds:.2f} s."
        )
        return table

    def shown(self) -> dict[str, Any]:
        """The first few patterns as pictures with values in [0, 1], and all energies."""
        assert self.memory.model.domain is not None
        low, high = self.memory.model.domain
        tile = tile_of(self.memory.model.pattern_shape)
        every = (self.episode.queries, *self.trajectory, self.episode.patterns)
        columns = (np.stack([patterns[:SHOWN] for patterns in every]) - low) / (high - low)
        energies = None
        if self.energies is not None and self.stored_energies is not None:
            energies = np.stack([*self.energies, self.stored_energies])
        wrong = [float(self.wrong(patterns).mean()) for patterns in every]
        return {"columns": columns.reshape(*columns.shape[:2], *tile), "wrong": wrong, "energies": energies}


def recalled_from(
    memory: Memory,
    episodes: Episodes,
    seed: int,
    *,
    careful: bool | None = None,
    rehearsal: Rehearsal | None = None,
    watch: Watch = iter,
) -> Recalled:
    """Write and read once each, compiled side by side beforehand, so that the seconds are those of the work.

    A rehearsal is compiled while it is watched, and its seconds are those of both.
    """
    episode: Episode = eqx.filter_jit(lambda episodes, key: episodes(key))(episodes, jax.random.key(seed))
    model, start = memory.model_for(episodes.patterns, careful=careful), memory.state
    write: Any = eqx.filter_jit(lambda model, patterns: model.write(patterns))
    read: Any = eqx.filter_jit(lambda model, state, queries, known: model.read(state, queries, known=known))
    with ThreadPoolExecutor(1) as threads:
        options = quickly()
        reading = threads.submit(lambda: read.lower(model, start, episode.queries, episode.known).compile(options))
        if rehearsal is None:
            compiled_write, compiled_read = write.lower(model, episode.patterns).compile(options), reading.result()
            state, write_seconds = timed(lambda: compiled_write(model, episode.patterns))
        else:
            practised = partial(memory.write, careful=careful, rehearsal=rehearsal, watch=watch)
            state, write_seconds = timed(lambda: practised(episode.patterns).state)
            compiled_read = reading.result()
    check_finite(state)
    out, read_seconds = timed(lambda: compiled_read(model, state, episode.queries, episode.known))
    # The first energies of a read are the queries' own: nothing more has to be compiled for those of the stored.
    again = jax.device_get(compiled_read(model, state, episode.patterns, episode.known).energies)
    episode, trajectory, energies = jax.device_get((episode, out.trajectory, out.energies))
    stored_energies = None if again is None else again[0]
    seconds = {"write_seconds": write_seconds, "read_seconds": read_seconds}
    about = (memory, episodes.damage.name, rehearsal)
    return Recalled(*about, episode, trajectory, energies, stored_energies, **seconds)


def quickly() -> dict[str, Any] | None:
    """On a CPU, code that is as fast and takes a fifth less to compile; where XLA_FLAGS are set, what they say."""
    if jax.default_backend() != "cpu" or "XLA_FLAGS" in os.environ:
        return None
    return {"xla_backend_optimization_level": 1}


def timed(work: Callable[[], PyTree]) -> tuple[PyTree, float]:
    start = time.perf_counter()
    result = jax.block_until_ready(work())
    return result, time.perf_counter() - start


def tile_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """How a pattern is drawn: an image as it is, a string in lines at least twice as long as they are many."""
    height, *rest = shape
    if rest:
        return height, rest[0]
    lines = max(n for n in range(1, height + 1) if height % n == 0 and (n == 1 or 2 * n * n <= height))
    return lines, height // lines


def print_json(recalled: Recalled, picture: Path | None) -> None:
    print(
        json.dumps(
            {
                "model": recalled.memory.name,
                "patterns": len(recalled.episode.patterns),
                "rehearsed": None if recalled.rehearsal is None else recalled.rehearsal.steps,
                "memory_size": recalled.memory.memory_size,
                "wrong_before": float(recalled.wrong(recalled.episode.queries).mean()),
                "wrong_after": float(recalled.wrong(recalled.trajectory[-1]).mean()),
                "write_seconds": recalled.write_seconds,
                "read_seconds": recalled.read_seconds,
                "picture": None if picture is None else str(picture),
            }
        )
    )
