"""The tables as data: their rows, how each cell is made, and the numbers that the paper printed."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files

from ..baselines import Hopfield, ModernHopfield
from ..interface import AbstractMemoryModel


@dataclass(frozen=True)
class System:
    """A row. It is trained by an experiment, or there is nothing to learn and it is built."""

    name: str
    label: str
    experiment: str | None = None
    """Its name, with `{patterns}` for their number."""
    build: Callable[[int], AbstractMemoryModel] | None = None
    """From the number of patterns."""
    published: str | None = None
    """The row of the paper's table; of two systems with the same one, the better is marked."""
    batches: int = 1000
    """To measure it over."""


@dataclass(frozen=True)
class PaperTable:
    """Systems against numbers of patterns, and what the paper printed for each."""

    name: str
    heading: str
    title: str
    """What the numbers are."""
    about: str
    on: str
    """The protocol."""
    patterns: tuple[int, ...]
    systems: tuple[System, ...]
    chance: float
    """The error of a reader that clamps what it knows and guesses the rest."""
    source: str = ""
    published: dict[tuple[str, int], float | int] = field(default_factory=dict)
    """By the paper's row and the number of patterns."""

    def published_for(self, system: System, patterns: int) -> float | int | None:
        return None if system.published is None else self.published.get((system.published, patterns))

    def experiment_for(self, system: System, patterns: int) -> str | None:
        return None if system.experiment is None else system.experiment.format(patterns=patterns)

    def chosen(self, only: tuple[str, ...] = (), patterns: tuple[int, ...] = ()) -> "PaperTable":
        """These rows and columns alone; `hopfield` stands for all rows whose names begin with it."""
        for name in only:
            if not any(_is_named(system, name) for system in self.systems):
                raise ValueError(f"--only {name}: expected {', '.join(system.name for system in self.systems)}.")
        for count in patterns:
            if count not in self.patterns:
                raise ValueError(f"--patterns {count}: expected {', '.join(map(str, self.patterns))}.")
        rows = tuple(s for s in self.systems if not only or any(_is_named(s, name) for name in only))
        columns = tuple(count for count in self.patterns if not patterns or count in patterns)
        return replace(self, systems=rows, patterns=columns)


def _is_named(system: System, name: str) -> bool:
    return system.name == name or system.name.startswith(f"{name}-")


def published(name: str) -> tuple[str, dict[tuple[str, int], float | int]]:
    """Where the numbers of a table are from, and the numbers by row and number of patterns."""
    content = json.loads(files("ebmm.paper").joinpath(f"{name}.json").read_bytes())
    values = {
        (row, count): value
        for row, printed in content["values"].items()
        for count, value in zip(content["patterns"], printed, strict=True)
    }
    return content["source"], values


def hopfield(patterns: int, *, rule: str, order: str) -> AbstractMemoryModel:
    # After 10 sweeps synchronous reads still improve; after 20 they rest, or go back and forth between two patterns.
    return Hopfield(pattern_shape=(BITS,), rule=rule, order=order, sweeps=30)


def modern_hopfield(patterns: int) -> AbstractMemoryModel:
    return ModernHopfield((BITS,), patterns=patterns, domain=(-1.0, 1.0))


BITS = 128
RULES = {"hebb": "Hebb", "storkey": "Storkey", "pseudo-inverse": "pseudo-inverse"}


def _binary() -> PaperTable:
    rules = tuple(
        System(
            f"hopfield-{rule}-{order}",
            f"Hopfield, {label}, {order}",
            build=partial(hopfield, rule=rule, order=order),
            published=f"hopfield-{rule}",
            batches=100,
        )
        for rule, label in RULES.items()
        for order in ("asynchronous", "synchronous")
    )
    trained = tuple(
        System(name, label, experiment=f"binary-{{patterns}}{ending}", published=name)
        for name, label, ending in (
            ("differentiable-plasticity", "differentiable plasticity", "-plasticity"),
            ("mann", "MANN", "-mann"),
            ("lstm", "LSTM", "-lstm"),
            ("memory-network", "Memory Network", "-memory-network"),
            ("ebmm-rnn", "EBMM, gated RNN", ""),
        )
    )
    modern = System("modern-hopfield", "modern Hopfield", build=modern_hopfield)
    source, values = published("binary")
    return PaperTable(
        name="binary",
        heading="Binary strings",
        title=f"Wrong bits of {BITS}",
        about=(
            f"Random strings of {BITS} bits are stored. Half of the bits of each, at random places, are drawn anew; "
            "the reader is told which half is sound and may clamp it. All bits count. The memory holds 8,256 floats, "
            "but for the modern Hopfield network, which keeps the strings themselves."
        ),
        on="strings",
        patterns=(16, 32, 48, 64, 96),
        systems=(*rules, *trained, modern),
        chance=BITS / 4,  # half of the bits are drawn anew, and half of those differ
        source=source,
        published=values,
    )


TABLES = {"binary": _binary()}
