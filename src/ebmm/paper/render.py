"""A table of the paper for a terminal, for a Markdown file and for a program."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from .cells import Cell
from .tables import PaperTable, System

MISSING = "–"
WIDE = 140  # a full table needs so many columns
Cells = Mapping[tuple[str, int], Cell]


@dataclass(frozen=True)
class Grid:
    """Text in rows and columns: what all renderings have in common."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str


def error_grid(table: PaperTable, cells: Cells) -> Grid:
    """Ours, with the paper's in brackets."""
    rows = []
    for system in table.systems:
        own = [cells.get((system.name, patterns)) for patterns in table.patterns]
        sizes, batches = (_range([getattr(cell, what) for cell in own if cell]) for what in ("memory_size", "batches"))
        errors = (_error(table, cells, system, patterns) for patterns in table.patterns)
        rows.append((system.label, sizes, batches, *errors))
    rows.append(("chance, clamped", "0", MISSING, *(f"{table.chance:.2f}" for _ in table.patterns)))
    note = f"Ours, and the paper's in brackets; {MISSING}: not there yet. Chance: known bits clamped, the rest guessed."
    if any("*" in text for row in rows for text in row):
        note += " *: the better order of reading."
    columns = ("system", "floats", "batches", *map(str, table.patterns))
    return Grid(f"{table.title}, by patterns stored", columns, rows, note)


def cost_grid(table: PaperTable, cells: Cells) -> Grid | None:
    """Updates and minutes of what is trained; None where no cell of it is there."""
    trained = [system for system in table.systems if system.experiment is not None]
    found = [cell for cell in cells.values() if cell.minutes is not None]
    if not found:
        return None
    rows = [(s.label, *(_cost(cells.get((s.name, patterns))) for patterns in table.patterns)) for s in trained]
    devices = sorted({str(cell.origin.get("device")) for cell in found})
    note = f"Updates, minutes of training + minutes of compiling. Trained on: {', '.join(devices)}."
    return Grid("What a cell cost, by patterns stored", ("system", *map(str, table.patterns)), rows, note)


def as_rich(table: PaperTable, cells: Cells, *, width: int = WIDE) -> list[Table]:
    """For a terminal of so many columns."""
    drawn = []
    for grid in filter(None, (error_grid(table, cells), cost_grid(table, cells))):
        rich = Table(*grid.columns, title=grid.title, caption=grid.note, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for index, column in enumerate(rich.columns):
            column.justify = "right" if index else "left"
            if width < WIDE:  # lines break between words, and no number is cut
                words = " ".join((grid.columns[index], *(row[index] for row in grid.rows))).split()
                column.width = max(map(len, words))
        for row in grid.rows:
            rich.add_row(*row)
        drawn.append(rich)
    return drawn


def as_markdown(table: PaperTable, cells: Cells, pictures: Mapping[str, str] | None = None) -> str:
    """A whole page; `pictures` are file names by what they show."""
    parts = [f"# {table.heading}", table.about]
    for grid in filter(None, (error_grid(table, cells), cost_grid(table, cells))):
        lines = [_line(grid.columns), _line(("---", *("---:" for _ in grid.columns[1:])))]
        lines += [_line(row) for row in grid.rows]
        parts += [f"## {grid.title}", "\n".join(lines), grid.note.replace("*", "\\*")]
    parts += [f"![{what}]({file})" for what, file in (pictures or {}).items()]
    parts += [
        f"Each number is a file in [`{table.name}/`]({table.name}) with its percentiles, its error at every read step, "
        f"settings, seed, commit, device and command. `ebmm table {table.name} --run` makes what is missing, "
        f"`ebmm table {table.name} --markdown` prints this page.",
        f"The paper's numbers: {table.source}",
    ]
    return "\n\n".join(parts) + "\n"


def as_objects(table: PaperTable, cells: Cells) -> list[dict[str, Any]]:
    """One object a cell, row by row; what was not measured is None."""
    objects = []
    for system in table.systems:
        for patterns in table.patterns:
            cell = cells.get((system.name, patterns))
            objects.append(
                {
                    "system": system.name,
                    "patterns": patterns,
                    "memory_size": None if cell is None else cell.memory_size,
                    "value": None if cell is None else cell.value,
                    "published": table.published_for(system, patterns),
                    "batches": None if cell is None else cell.batches,
                }
            )
    return objects


def _error(table: PaperTable, cells: Cells, system: System, patterns: int) -> str:
    def shown(each: System) -> float | None:
        cell = cells.get((each.name, patterns))
        return None if cell is None else round(cell.value, 2)

    own, printed = shown(system), table.published_for(system, patterns)
    if own is None:
        text = MISSING
    else:
        rivals = [s for s in table.systems if s is not system and s.published == system.published is not None]
        others = [value for value in map(shown, rivals) if value is not None]
        text = f"{own:.2f}{'*' if others and own < min(others) else ''}"
    return text if printed is None else f"{text} ({printed})"


def _cost(cell: Cell | None) -> str:
    if cell is None or cell.minutes is None or cell.compile_minutes is None:
        return MISSING
    return f"{cell.updates:,}, {cell.minutes:.1f} + {cell.compile_minutes:.1f}"


def _range(values: list[int]) -> str:
    if not values:
        return MISSING
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _line(row: tuple[str, ...]) -> str:
    return f"| {' | '.join(text.replace('*', chr(92) + '*') for text in row)} |"
