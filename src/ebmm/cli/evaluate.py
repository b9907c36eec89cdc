"""`ebmm evaluate`: what a model is worth, beside the yardsticks."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import tyro
from jaxtyping import PRNGKeyArray
from rich.console import Console

from ..careful import Careful
from ..checks import check_seed
from ..data import DATASETS
from ..data.binary import RandomBits
from ..data.distortions import AbstractDistortion, distortion
from ..data.episodes import Episodes
from ..data.images import AbstractPatterns, Binarised, Correlated, Images
from ..evaluation.damage_curve import damage_curve
from ..evaluation.energy_levels import energy_levels
from ..evaluation.errors import Watch, checked, measure_errors
from ..evaluation.protocols import PROTOCOLS, Protocol
from ..evaluation.report import energy_report, energy_table, error_report, error_table, strength_table
from ..files import as_json, write_whole
from ..interface import AbstractMemoryModel
from ..longer import in_steps
from ..memory import Memory
from ..pretrained import model_hash
from ..provenance import provenance
from ..rehearsal import Rehearsal, with_rehearsal
from .output import bar, check_place, save_figure, told_plainly

Report = dict[str, Any]


def evaluate(
    model: Annotated[str | None, tyro.conf.Positional] = None,
    *,
    on: str = "omniglot-sample",
    batches: int = 1000,
    patterns: int | None = None,
    damage: str | None = None,
    split: str = "test",
    as_learned: bool = False,
    careful: bool = False,
    rehearse: int | None = None,
    rehearse_under: str | None = None,
    read_steps: int | None = None,
    seed: int = 0,
    strengths: tuple[str, ...] = (),
    energies: bool = False,
    unlike: tuple[str, ...] = (),
    out: Path | None = None,
    picture: Path | None = None,
) -> None:
    """Measure a model over random batches: mean and 5- and 95-percentiles at every read step, beside the yardsticks.

    Without a model, the yardsticks alone: doing nothing, blanking the damage with its place known, and an exact
    store with the bits that it takes.

    Args:
        model: Name of a bundled model, or folder of a saved one.
        on: What to store and how to damage it: strings, omniglot, omniglot-salt, omniglot-uniform, omniglot-correlated,
            omniglot-sample, mnist, cifar10, imagenet64 or tiny-imagenet.
        batches: How many random batches.
        patterns: Patterns in a batch, if not as many as the paper has.
        damage: If not the paper's: block:SIZE, block:SIZE:noise, salt-and-pepper:RATE, bits:SHARE, or several with +.
        split: Part of the dataset.
        as_learned: Write another number of patterns than in training with the steps that were learned, unchecked.
        careful: Read what was written from itself and try steps of other lengths where that fails; otherwise only done
            with another number of patterns than in training.
        rehearse: Steps of practising the reading after each write, under the same kind of damage.
        rehearse_under: Damage to practise under, if it is to be another.
        read_steps: To read in, if not as many as were learned; the last learned step is repeated.
        seed: Of the batches and of the damage.
        strengths: Damage to measure the error under as well, over a tenth of the batches.
        energies: Measure the energies of memories, non-memories, damaged memories and random bits as well.
        unlike: Datasets to measure the energies of too; made black and white where the memory holds drawings.
        out: Where to save all of it as JSON.
        picture: Where to save a picture of it.
    """
    started = time.perf_counter()
    console = Console()
    with told_plainly():
        check_place("--out", out, ".json")
        check_place("--picture", picture, ".png")
        check_seed(seed)
        kinds = [distortion(text) for text in strengths]
        memory = None if model is None else Memory.from_pretrained(model)
        protocol = chosen(on, memory, patterns=patterns, damage=damage)
        if memory is None and (energies or unlike):
            raise ValueError("--energies and --unlike need a model; give the folder of a saved one.")
        if memory is None and careful:
            raise ValueError("--careful needs a model; give a bundled one's name or the folder of a saved one.")
        if memory is None and rehearse is not None:
            raise ValueError("--rehearse needs a model; give a bundled one's name or the folder of a saved one.")
        if rehearse is None and rehearse_under is not None:
            raise ValueError(f"--rehearse-under {rehearse_under}: add --rehearse STEPS.")
        if memory is None and read_steps is not None:
            raise ValueError("--read-steps needs a model; give a bundled one's name or the folder of a saved one.")
        episodes = protocol.episodes(split)
        others = {f"{name} images": patterns_of(name, like=episodes.source) for name in unlike}
        practised = distortion(rehearse_under) if rehearse_under else episodes.damage
        rehearsal = None if rehearse is None else Rehearsal(practised, rehearse, episodes.reveal)
        measuring = Measuring(
            console, memory, episodes, protocol.metric, seed, as_learned, careful, rehearsal, read_steps
        )
        measuring.check(batches, kinds)
        report = about(on, protocol, split, episodes.source, memory)
        report |= {"shorter_steps": measuring.shorter_steps, "careful": measuring.is_careful, "rehearsed": rehearse}
        report |= {"rehearsal": None if rehearsal is None else rehearsal.report()}
        report |= {"read_steps": read_steps}
        report |= measuring.errors(batches)
        if kinds:
            report |= measuring.strengths(kinds, max(batches // 10, 1))
        if energies or unlike:
            report |= measuring.energies(others, max(batches // 10, 1))
        report |= {"wall_seconds": time.perf_counter() - started, **provenance(seed=seed)}
        save(console, report, out, picture)


@dataclass(frozen=True)
class Measuring:
    """What can be measured of one memory on one kind of episodes; each is shown as soon as it is there."""

    console: Console
    memory: Memory | None
    of: Episodes
    metric: str
    seed: int
    as_learned: bool
    careful: bool
    rehearsal: Rehearsal | None
    read_steps: int | None

    @property
    def model(self) -> AbstractMemoryModel | None:
        """As `Memory` takes it to write so many patterns and to read in so many steps."""
        return None if self.memory is None else with_rehearsal(self._written(self.memory), self.rehearsal)

    def _written(self, memory: Memory) -> AbstractMemoryModel:
        read = replace(memory, model=in_steps(memory.model, self.read_steps))
        careful = True if self.careful else None
        return read.model_for(self.of.patterns, as_learned=self.as_learned, careful=careful)

    @property
    def is_careful(self) -> bool:
        return self.memory is not None and isinstance(self._written(self.memory), Careful)

    @property
    def shorter_steps(self) -> bool:
        learned = None if self.memory is None else (self.memory.trained or {}).get("patterns")
        return not self.as_learned and learned is not None and self.of.patterns < learned

    def key(self, index: int) -> PRNGKeyArray:
        return jax.random.fold_in(jax.random.key(self.seed), index)

    def bar(self, what: str) -> Watch:
        return bar(self.console, what)

    def check(self, batches: int, kinds: Sequence[AbstractDistortion]) -> None:
        """Refuse what could not be measured before anything is."""
        for damage in (self.of.damage, *kinds):
            checked(self.model, eqx.tree_at(lambda e: e.damage, self.of, damage), batches)

    def errors(self, batches: int) -> Report:
        errors = measure_errors(
            self.model,
            self.of,
            key=self.key(0),
            metric=self.metric,
            batches=batches,
            watch=self.bar("Measuring errors"),
        )
        memory_size = None if self.memory is None else self.memory.memory_size
        report = error_report(errors, patterns=self.of.patterns, memory_size=memory_size)
        title = f"{self.of.patterns} patterns, {self.of.damage.name}, {batches} batches"
        if self.shorter_steps:
            title += ", shorter write steps for fewer patterns"
        if self.is_careful:
            title += ", written with care"
        if self.rehearsal is not None:
            under = "" if self.rehearsal.damage == self.of.damage else f" under {self.rehearsal.damage.name}"
            title += f", {self.rehearsal.steps} steps of rehearsal{under}"
        self.console.print(error_table(report, title=title, metric=self.metric))
        return {"batches": batches, **report}

    def strengths(self, kinds: Sequence[AbstractDistortion], batches: int) -> Report:
        def watch(name: str) -> Watch:
            return self.bar(f"Measuring errors under {name}")

        curve = damage_curve(
            self.model, self.of, kinds, key=self.key(0), metric=self.metric, batches=batches, watch=watch
        )
        reports = {name: error_report(errors, patterns=self.of.patterns) for name, errors in curve.items()}
        self.console.print(strength_table(reports, metric=self.metric))
        return {"strengths_batches": batches, "strengths": reports}

    def energies(self, others: dict[str, AbstractPatterns], batches: int) -> Report:
        assert self.model is not None
        source = self.of.source
        unlike = others | {"random bits": RandomBits(pattern_shape=source.pattern_shape, domain=source.domain)}
        watch = self.bar("Measuring energies")
        levels = energy_levels(self.model, self.of, key=self.key(1), unlike=unlike, batches=batches, watch=watch)
        report = energy_report(levels)
        self.console.print(energy_table(report))
        return {"energies_batches": batches, "energies": report}


def chosen(on: str, memory: Memory | None, *, patterns: int | None, damage: str | None) -> Protocol:
    """The protocol with what was given changed; strings are as long as the model's."""
    if on not in PROTOCOLS:
        raise ValueError(f"--on {on}: expected {', '.join(PROTOCOLS)}.")
    given: dict[str, Any] = {"patterns": patterns, "damage": damage}
    if PROTOCOLS[on].data == "strings" and memory is not None and len(memory.model.pattern_shape) == 1:
        given["bits"] = memory.model.pattern_shape[0]
    return replace(PROTOCOLS[on], **{name: value for name, value in given.items() if value is not None})


def patterns_of(name: str, *, like: AbstractPatterns) -> AbstractPatterns:
    """Another dataset's test images, made black and white where those of the memory have a single channel."""
    if name not in DATASETS:
        raise ValueError(f"--unlike {name}: expected {', '.join(DATASETS)}.")
    images = DATASETS[name].images("test")
    others = Binarised(images) if like.pattern_shape[-1] == 1 and images.pattern_shape[-1] > 1 else images
    if others.pattern_shape != like.pattern_shape:
        raise ValueError(
            f"--unlike {name}: its patterns have shape {others.pattern_shape}; expected {like.pattern_shape}."
        )
    return others


def about(on: str, protocol: Protocol, split: str, source: AbstractPatterns, memory: Memory | None) -> Report:
    """What was measured on what, so that the number can stand alone."""
    dataset = DATASETS.get(protocol.data)
    files = None if dataset is None else dataset.source(split)
    images = source.images if isinstance(source, Correlated) else source
    data = {
        "title": "random strings" if dataset is None else dataset.title,
        "files": None if files is None else str(files),
        "images": len(images) if isinstance(images, Images) else None,
    }
    model = None if memory is None else {"name": memory.name, "hash": model_hash(memory.model)}
    return {"on": on, **asdict(protocol), "split": split, "data_source": data, "model": model}


def save(console: Console, report: Report, out: Path | None, picture: Path | None) -> None:
    if out is not None:
        write_whole({out: as_json(report)})
        console.print(f"Saved {out}", soft_wrap=True)
    if picture is not None:
        from ..figures import evaluation_figure

        save_figure(evaluation_figure(report), picture)
        console.print(f"Picture: {picture}", soft_wrap=True)
