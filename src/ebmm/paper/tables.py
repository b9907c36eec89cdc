"""What a table is: its rows and columns, how each cell is made, and the numbers that the paper printed."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.resources import files

from ..interface import AbstractMemoryModel


@dataclass(frozen=True)
class Column:
    """What the systems are measured on: a number of patterns, or a kind of damage."""

    name: str
    label: str
    on: str
    """The protocol."""
    patterns: int | None = None
    """None where every system has a number of its own, and the column is a kind of damage."""
    ending: str = ""
    """Of the experiments that train for it."""

    @property
    def damage(self) -> str | None:
        return self.name if self.patterns is None else None


@dataclass(frozen=True)
class System:
    """A row. It is trained by an experiment, or built of nothing or of a bundled model, or it is a yardstick."""

    name: str
    label: str
    experiment: str | None = None
    """Its name, with `{patterns}` for their number and `{ending}` for the column's."""
    build: Callable[[int], AbstractMemoryModel] | None = None
    """From the number of patterns."""
    bundled: str | None = None
    """The model that comes with the package and that it is built of."""
    yardstick: str | None = None
    """Its name in `Errors`: it needs no model."""
    published: str | None = None
    """The row of the paper's table; of two systems with the same one, the better is marked."""
    batches: int = 1000
    """To measure it over."""
    patterns: int = 64
    """In a batch, where the column does not say."""
    columns: tuple[str, ...] = ()
    """Those that it has a cell in, if not all."""
    told: tuple[str, ...] = ()
    """Columns whose reader is told what is undamaged, beside those whose protocol says so."""
    read_steps: int | None = None
    """Of a VAE, where one training serves several rows; the size of the steps is searched on the training split."""

    @property
    def is_learned(self) -> bool:
        return self.experiment is not None or self.bundled is not None


Place = tuple[System, Column]


@dataclass(frozen=True)
class PaperTable:
    """Systems against columns, and what the paper printed for each."""

    name: str
    heading: str
    title: str
    """What the numbers are."""
    about: str
    columns: tuple[Column, ...]
    systems: tuple[System, ...]
    chance: float | None = None
    """The error of a reader that clamps what it knows and guesses the rest, the same in all columns."""
    source: str = ""
    published: dict[tuple[str, str], float | int] = field(default_factory=dict)
    """By the paper's row and the name of the column."""
    notes: dict[str, str] = field(default_factory=dict)
    """What has to be said of a row of the paper's numbers."""

    @property
    def by_damage(self) -> bool:
        """Whether a column is a kind of damage, not a number of patterns."""
        return self.columns[0].damage is not None

    @property
    def places(self) -> list[Place]:
        """Every cell that there can be, row by row."""
        return [(s, c) for s in self.systems for c in self.columns if not s.columns or c.name in s.columns]

    def published_for(self, system: System, column: Column) -> float | int | None:
        return None if system.published is None else self.published.get((system.published, column.name))

    def chosen(self, only: tuple[str, ...] = (), patterns: tuple[int, ...] = ()) -> "PaperTable":
        """These rows and columns alone; `hopfield` stands for all rows whose names begin with it."""
        for name in only:
            if not _named(name, self.systems):
                raise ValueError(f"--only {name}: expected {', '.join(system.name for system in self.systems)}.")
        if patterns and self.by_damage:
            given = " ".join(map(str, patterns))
            raise ValueError(f"--patterns {given}: the table {self.name} has no such columns; choose rows with --only.")
        for count in patterns:
            if count not in [column.patterns for column in self.columns]:
                raise ValueError(f"--patterns {count}: expected {', '.join(column.name for column in self.columns)}.")
        named = [system for name in only for system in _named(name, self.systems)]
        rows = tuple(system for system in self.systems if not only or system in named)
        columns = tuple(column for column in self.columns if not patterns or column.patterns in patterns)
        return replace(self, systems=rows, columns=columns)


def patterns_at(system: System, column: Column) -> int:
    return system.patterns if column.patterns is None else column.patterns


def experiment_at(system: System, column: Column) -> str | None:
    """The experiment that trains the system for this column; another column may have the same one."""
    if system.experiment is None:
        return None
    return system.experiment.format(patterns=patterns_at(system, column), ending=column.ending)


def _named(name: str, systems: tuple[System, ...]) -> list[System]:
    """The row of this name; where there is none, all whose names begin with it."""
    exact = [system for system in systems if system.name == name]
    return exact or [system for system in systems if system.name.startswith(f"{name}-")]


@dataclass(frozen=True)
class Published:
    """The numbers of a table, where they are from, and notes on its rows."""

    source: str
    published: dict[tuple[str, str], float | int]
    notes: dict[str, str]


def published(name: str) -> Published:
    content = json.loads(files("ebmm.paper").joinpath(f"{name}.json").read_bytes())
    values = {
        (row, column): value
        for row, printed in content["values"].items()
        for column, value in zip(content["columns"], printed, strict=True)
        if value is not None
    }
    return Published(content["source"], values, content.get("notes", {}))
