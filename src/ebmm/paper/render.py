"""A table of the paper for a terminal, for a Markdown file and for a program."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table

from .cells import Cell
from .tables import Column, PaperTable, System, patterns_at

MISSING = "–"
WIDE = 140  # a full table needs so many columns
Cells = Mapping[tuple[str, str], Cell]


@dataclass(frozen=True)
class Grid:
    """Text in rows and columns: what all renderings have in common."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str


def grids(table: PaperTable, cells: Cells) -> list[Grid]:
    """Numbers of patterns stand side by side; of each kind of damage there is more to tell, one after the other."""
    if table.by_damage:
        return [damage_grid(table, cells, column) for column in table.columns]
    return [grid for grid in (error_grid(table, cells), cost_grid(table, cells)) if grid is not None]


def error_grid(table: PaperTable, cells: Cells) -> Grid:
    """Ours, with the paper's in brackets."""
    rows = []
    for system in table.systems:
        own = [cells.get((system.name, column.name)) for column in table.columns]
        sizes, batches = (_range([getattr(cell, what) for cell in own if cell]) for what in ("memory_size", "batches"))
        errors = (_error(table, cells, system, column) for column in table.columns)
        rows.append((system.label, sizes, batches, *errors))
    note = f"Ours, and the paper's in brackets; {MISSING}: not there yet."
    if table.chance is not None:
        rows.append(("chance, clamped", "0", MISSING, *(f"{table.chance:.2f}" for _ in table.columns)))
        note += " Chance: known bits clamped, the rest guessed."
    if any("*" in text for row in rows for text in row):
        note += " *: the better order of reading."
    columns = ("system", "floats", "batches", *(column.name for column in table.columns))
    return Grid(f"{table.title}, by patterns stored", columns, rows, note)


def cost_grid(table: PaperTable, cells: Cells) -> Grid | None:
    """Updates and minutes of what is trained; None where no cell of it is there."""
    trained = [system for system in table.systems if system.experiment is not None]
    found = [cell for cell in cells.values() if cell.minutes is not None]
    if not found:
        return None
    rows = [(s.label, *(_cost(cells.get((s.name, column.name))) for column in table.columns)) for s in trained]
    note = f"Updates, minutes of training + minutes of compiling. Trained on: {_devices(found)}."
    columns = ("system", *(column.name for column in table.columns))
    return Grid("What a cell cost, by patterns stored", columns, rows, note)


DETAILS = ("system", "floats", "ours", "5 to 95 %", "published", "batches", "updates", "minutes")


def damage_grid(table: PaperTable, cells: Cells, column: Column) -> Grid:
    """All there is to tell of the cells of one column, a row each."""
    systems = [system for system, of in table.places if of == column]
    own = {system: cell for system in systems if (cell := cells.get((system.name, column.name))) is not None}
    rows = [_details(table, system, column, own.get(system)) for system in systems]
    parts = [
        "Percentiles are over batches, of so many patterns each; minutes are of training, without compiling; "
        f"{MISSING}: not there."
    ]
    parts += [
        f"Published, {system.label}: {note}."
        for system in systems
        if table.published_for(system, column) is not None and (note := _note(table, system))
    ]
    searches = {system.label: cell.origin["search"] for system, cell in own.items() if "search" in cell.origin}
    if searches:
        sizes = "; ".join(f"{label}: {search['chosen']:g}" for label, search in searches.items())
        parts.append(f"Step sizes, the best of a grid on training drawings: {sizes}.")
    trained = [cell for cell in own.values() if cell.minutes is not None]
    if trained:
        parts.append(f"Trained on: {_devices(trained)}.")
    return Grid(f"{table.title}, {column.label}", DETAILS, rows, " ".join(parts))


def _details(table: PaperTable, system: System, column: Column, cell: Cell | None) -> tuple[str, ...]:
    printed = table.published_for(system, column)
    about = "≈" if _note(table, system).startswith("interpolated") else ""
    published = MISSING if printed is None else f"{about}{printed}"
    if cell is None:
        return (system.label, MISSING, MISSING, MISSING, published, MISSING, MISSING, MISSING)
    return (
        system.label,
        f"{cell.memory_size:,}",
        f"{cell.value:.2f}",
        f"{cell.low:.2f} to {cell.high:.2f}" if cell.batches > 1 else MISSING,
        published,
        f"{cell.batches:,} of {cell.patterns}",
        MISSING if cell.updates is None else f"{cell.updates:,}",
        MISSING if cell.minutes is None else f"{cell.minutes:.1f}",
    )


def _note(table: PaperTable, system: System) -> str:
    return table.notes.get(system.published or "", "")


def as_rich(table: PaperTable, cells: Cells, *, width: int = WIDE) -> list[Table]:
    """For a terminal of so many columns."""
    drawn = []
    for grid in grids(table, cells):
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
    for grid in grids(table, cells):
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
    for system, column in table.places:
        cell = cells.get((system.name, column.name))
        values = {} if cell is None else asdict(cell)
        found = {
            "system": system.name,
            "patterns": patterns_at(system, column),
            "memory_size": values.get("memory_size"),
            "value": values.get("value"),
            "published": table.published_for(system, column),
            "batches": values.get("batches"),
        }
        if column.damage is not None:
            note = None if found["published"] is None else _note(table, system) or None
            found |= {"damage": column.damage, "published_note": note}
            found |= {name: values.get(name) for name in ("low", "high", "updates", "minutes")}
        objects.append(found)
    return objects


def _error(table: PaperTable, cells: Cells, system: System, column: Column) -> str:
    def shown(each: System) -> float | None:
        cell = cells.get((each.name, column.name))
        return None if cell is None else round(cell.value, 2)

    own, printed = shown(system), table.published_for(system, column)
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


def _devices(cells: list[Cell]) -> str:
    return ", ".join(sorted({str(cell.origin.get("device")) for cell in cells}))


def _range(values: list[int]) -> str:
    if not values:
        return MISSING
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _line(row: tuple[str, ...]) -> str:
    return f"| {' | '.join(text.replace('*', chr(92) + '*') for text in row)} |"
