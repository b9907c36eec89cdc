"""`ebmm figure`: the paper's figures on Omniglot, each with the numbers that it shows."""

import difflib
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import jax
import numpy as np
import tyro
from jaxtyping import PRNGKeyArray
from rich.console import Console, RenderableType

from ..careful import carefully
from ..checks import check_seed
from ..core.model import EBMM
from ..core.rates import TERMS
from ..data.episodes import Episodes
from ..evaluation.energy_levels import energy_levels
from ..evaluation.errors import Spread, checked, measure_errors
from ..evaluation.protocols import PROTOCOLS
from ..evaluation.report import energy_report, energy_table, error_report
from ..files import as_json as json_bytes
from ..files import write_whole
from ..memory import Memory
from ..pretrained import layer_names, model_hash
from ..provenance import provenance
from .evaluate import Report, about, patterns_of
from .load import load_warning
from .output import as_png, bar, check_place, told_plainly
from .recall import DEFAULT_MODEL, SHOWN, Recalled, recalled_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCHES = 20
BINS = 80
LEGEND = "vermilion should be paper, blue should be ink"
BINARISED = "1 where the mean of red, green and blue is above a half, else 0"


def figure(
    name: str,
    /,
    *,
    model: str = DEFAULT_MODEL,
    out: Path | None = None,
    seed: int = 0,
    batches: int | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Draw a figure of the paper for a model of Omniglot's drawings, and save beside it the numbers as JSON.

    Args:
        name: reading, test characters recalled step by step, with energies; energies, how those of memories, other
            characters, damaged memories and black and white photographs differ; digits, MNIST recalled by the same
            model; or rates, the learned schedule of writing and reading.
        model: Name of a bundled model, or folder of a saved one.
        out: Where to save the picture; figure-NAME.png if left out. The JSON has the same name, with .json.
        seed: Of the batches and of the damage.
        batches: Over how many random batches energies and digits are measured; 20 if left out.
        as_json: Print the JSON and nothing else.
    """
    started = time.perf_counter()
    console = Console(stderr=as_json)
    with told_plainly():
        draw = named(name)
        picture = Path(f"figure-{name}.png") if out is None else out
        numbers = picture.with_suffix(".json")
        check_place("--out", picture, ".png")
        check_place("the JSON beside --out,", numbers, ".json")
        check_seed(seed)
        if batches is not None and draw not in (energies, digits):
            raise ValueError(f"--batches {batches}: energies and digits are measured over batches; {name} is not.")
        asked = Asked(console, Memory.from_pretrained(model), seed, BATCHES if batches is None else batches)
        drawn = draw(asked)
        report = {"figure": name, **drawn.report}
        report |= {"wall_seconds": time.perf_counter() - started, **provenance(seed=seed)}
        write_whole({picture: as_png(drawn.picture), numbers: json_bytes(report)})
    if as_json:
        sys.stdout.write(json_bytes(report).decode())
        return
    for each in drawn.words:
        console.print(each, highlight=False)
    console.print(f"Picture: {picture}, numbers: {numbers}", soft_wrap=True)


@dataclass(frozen=True)
class Asked:
    """What a figure is drawn from."""

    console: Console
    memory: Memory
    seed: int
    batches: int

    def key(self, index: int) -> PRNGKeyArray:
        return jax.random.fold_in(jax.random.key(self.seed), index)

    def episodes(self, on: str) -> Episodes:
        """Of the test set, refused before anything is compiled if they do not fit the model."""
        episodes = PROTOCOLS[on].episodes("test")
        checked(self.memory.model, episodes, self.batches)
        warning = load_warning(self.memory, episodes.patterns)
        if warning:
            self.console.print(warning, highlight=False)
        return episodes

    def about(self, on: str, episodes: Episodes) -> Report:
        return about(on, PROTOCOLS[on], "test", episodes.source, self.memory)


@dataclass(frozen=True)
class Drawn:
    """A figure, its numbers, and what is told of it."""

    picture: "Figure"
    report: Report
    words: tuple[RenderableType, ...]


def reading(asked: Asked) -> Drawn:
    """Characters of the evaluation set from damaged to recalled, and their energies on the way."""
    from ..figures import recall_figure

    episodes = asked.episodes("omniglot")
    recalled = recalled_once(asked, episodes)
    title = (
        f"{episodes.patterns} characters of Omniglot's evaluation set in {asked.memory.memory_size:,} floats, "
        f"read back from copies damaged by {episodes.damage.name}\n{LEGEND}"
    )
    report = asked.about("omniglot", episodes) | traced(recalled)
    return Drawn(recall_figure(**recalled.shown(), title=title), report, (recalled.table(),))


def digits(asked: Asked) -> Drawn:
    """The same for digits, which a model of Omniglot has never seen, and its error over batches of them.

    Their strokes are thicker, and the learned write steps may go too far for them: they are written with care.
    """
    from ..figures import recall_figure

    episodes, memory = asked.episodes("mnist"), asked.memory
    watch = bar(asked.console, "Measuring errors")
    model = carefully(memory.model)
    errors = measure_errors(model, episodes, key=asked.key(0), batches=asked.batches, watch=watch)
    measured = error_report(errors, patterns=episodes.patterns, memory_size=memory.memory_size)
    recalled = recalled_once(asked, episodes, careful=True)
    error, blanked = measured["error"], measured["yardsticks"]["blanked"]
    line = (
        f"{episodes.patterns} MNIST digits written with care to {memory.name}: {error['mean']:.1f} wrong pixels "
        f"({error['low']:.1f} to {error['high']:.1f} over {asked.batches} batches); "
        f"{blanked['mean']:.1f} with the damage blanked, its place known"
    )
    trained = (memory.trained or {}).get("on")
    title = f"{line}\n{LEGEND if trained is None else f'the model was trained on {trained}; {LEGEND}'}"
    report = asked.about("mnist", episodes) | {"batches": asked.batches, "careful": True, **measured} | traced(recalled)
    return Drawn(recall_figure(**recalled.shown(), title=title), report, (recalled.table(), line))


def recalled_once(asked: Asked, episodes: Episodes, *, careful: bool | None = None) -> Recalled:
    with asked.console.status("Storing and recalling; the first time, compiling takes most of it"):
        return recalled_from(asked.memory, episodes, asked.seed, careful=careful)


def traced(recalled: Recalled) -> Report:
    """The numbers in a picture of a recall: from damaged over every read step to stored."""
    drawn = recalled.shown()
    energies = None
    if drawn["energies"] is not None:
        energies = [asdict(Spread.of(each)) | {"shown": each[:SHOWN].tolist()} for each in drawn["energies"]]
    steps = [f"read {step}" for step in range(1, len(recalled.trajectory) + 1)]
    return {"columns": ["damaged", *steps, "stored"], "wrong": drawn["wrong"], "column_energies": energies}


def energies(asked: Asked) -> Drawn:
    """How the energies of what is stored differ from those of everything else."""
    from ..paper.figures import energies_figure

    episodes = asked.episodes("omniglot")
    unlike = {"CIFAR-10, binarised": patterns_of("cifar10", like=episodes.source)}
    watch = bar(asked.console, "Measuring energies")
    levels = energy_levels(
        asked.memory.model, episodes, key=asked.key(1), unlike=unlike, batches=asked.batches, watch=watch
    )
    levels = {name: levels[name] for name in ("memories", "non-memories", "damaged memories", *unlike)}
    summary = energy_report(levels)
    report = asked.about("omniglot", episodes) | {"batches": asked.batches, "binarised": BINARISED}
    report |= {"energies": summary, **histograms(levels)}
    title = (
        f"Energies in a memory of {episodes.patterns} test characters, {asked.batches} batches ({asked.memory.name})"
    )
    return Drawn(energies_figure(report, title=title), report, (energy_table(summary), f"CIFAR-10: {BINARISED}."))


def histograms(levels: dict[str, np.ma.MaskedArray]) -> Report:
    """For each kind of pattern the share of its finite energies in each bin; the bins are the same for all."""
    finite = {name: values.compressed()[np.isfinite(values.compressed())] for name, values in levels.items()}
    edges = np.histogram_bin_edges(np.concatenate(list(finite.values())), BINS)
    shares = {name: (np.histogram(values, edges)[0] / max(values.size, 1)).tolist() for name, values in finite.items()}
    return {"bins": edges.tolist(), "shares": shares}


def rates(asked: Asked) -> Drawn:
    """The learned schedule: how far each write step and each read step goes."""
    from ..paper.figures import rates_figure

    memory, model = asked.memory, asked.memory.model
    if not isinstance(model, EBMM):
        raise ValueError(
            f"{memory.name} is a {type(model).__name__}, which has no schedule of rates; expected an energy-based "
            f"memory model, such as {DEFAULT_MODEL}."
        )
    names = layer_names(model.energy, model.where)
    values = np.asarray(model.write_rates())
    write = {
        term: {name: values[:, layer, index].tolist() for layer, name in enumerate(names)}
        for index, term in enumerate(TERMS)
        if term != "gradient" or model.gradient_term
    }
    read = {"rate": model.read_rates.rates().tolist(), "momentum": model.read_rates.momenta().tolist()}
    drawn = rates_figure(write, read, title=f"Learned rates of {memory.name}")
    report = {"model": {"name": memory.name, "hash": model_hash(model)}, "write_rates": write, "read_rates": read}
    return Drawn(drawn, report, ())


FIGURES: dict[str, Callable[[Asked], Drawn]] = {
    "reading": reading,
    "energies": energies,
    "digits": digits,
    "rates": rates,
}


def named(name: str) -> Callable[[Asked], Drawn]:
    if name in FIGURES:
        return FIGURES[name]
    near = difflib.get_close_matches(name, FIGURES, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    raise ValueError(f"no figure {name!r}. {hint}Expected {', '.join(FIGURES)}.")
