"""`ebmm table`: a table of the paper, ours beside theirs, and the work that fills it."""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

from ..checks import check_seed
from ..files import as_json
from ..paper import (
    TABLES,
    Cell,
    PaperTable,
    Place,
    System,
    as_markdown,
    as_objects,
    as_rich,
    cell_of,
    cells_of_run,
    experiment_at,
    load_cells,
    save_cell,
)
from ..training.progress import Diverged
from ..training.run import Run
from .compiled import traced_folder
from .output import bar, check_place, save_figure, told_plainly
from .train import named, shown, stop_signals


def table(
    name: str = "binary",
    /,
    *,
    run: bool = False,
    add: tuple[Path, ...] = (),
    evaluation: Path | None = None,
    only: tuple[str, ...] = (),
    patterns: tuple[int, ...] = (),
    minutes: float | None = None,
    seed: int = 0,
    results: Path | None = None,
    runs: Path = Path("runs"),
    markdown: bool = False,
    json: bool = False,
    picture: Path | None = None,
) -> None:
    """Print a table of the paper with our numbers beside the published ones; train and measure what is missing.

    Args:
        name: binary, wrong bits of random strings against their number; or baselines, wrong pixels of Omniglot drawings
            in the systems that the paper compares with, for two kinds of damage.
        run: Make the cells that are missing: train into --runs, measure, save. A cell that is there is left alone.
        add: Folders of runs, as `ebmm train` leaves them, to measure; every cell that they make is replaced.
        evaluation: What `ebmm evaluate --out` has measured of the one run to add, in place of measuring it again.
        only: These systems only, by name, or several by its beginning: ebmm-rnn, hopfield, hopfield-hebb, …
        patterns: These numbers of patterns only, in the table binary.
        minutes: Stop after so many minutes; a training that is not done goes on the next time.
        seed: Of the trainings. The test batches are the same whatever it is.
        results: The folder of the cells, one JSON each; results/NAME if left out.
        runs: Where the trainings go, each into a folder named after its experiment.
        markdown: Print a page of Markdown.
        json: Print a list of objects, and nothing else.
        picture: Where to save a picture of the table; for binary, EBMM's training curves go beside it, into
            …-training.png, and those of another network than the paper's into …-training-SYSTEM.png.
    """
    console = Console(stderr=True)  # what goes on; the table alone is the output
    with told_plainly():
        check_place("--picture", picture, ".png")
        check_seed(seed)
        if name not in TABLES:
            raise ValueError(f"no table {name!r}; expected {', '.join(TABLES)}.")
        if markdown and json:
            raise ValueError("got --markdown and --json; expected one of them.")
        if minutes is not None and not minutes >= 0:
            raise ValueError(f"--minutes {minutes}: expected a number of at least 0.")
        if evaluation is not None and len(add) != 1:
            raise ValueError(f"--evaluation {evaluation}: got {len(add)} runs to add; expected the one it is of.")
        whole, folder = TABLES[name], Path("results") / name if results is None else results
        chosen = whole.chosen(only, patterns)
        load_cells(chosen, folder)  # a broken one is told before hours of work, not after
        for each in add:
            for cell in cells_of_run(whole, each, evaluation=evaluation, watch=partial(bar, console)):
                keep(console, whole, cell, folder)
        failures = fill(console, chosen, folder, runs, seed, minutes) if run else []
        cells = load_cells(chosen, folder)
        pictures = {} if picture is None else draw(chosen, cells, picture)
    for path in pictures.values():
        console.print(f"Picture: {path}", soft_wrap=True)
    if json:
        sys.stdout.write(as_json(as_objects(chosen, cells)).decode())
    elif markdown:
        sys.stdout.write(as_markdown(chosen, cells, {what: path.name for what, path in pictures.items()}))
    else:
        output = Console()
        for each in as_rich(chosen, cells, width=output.width):
            output.print(each)
        if len(cells) < len(chosen.places):
            console.print(f"Not all cells are in {folder}. Make them with: ebmm table {name} --run", soft_wrap=True)
    if failures:
        raise SystemExit("\n".join(f"ebmm: {failure}" for failure in failures))


def fill(console: Console, table: PaperTable, folder: Path, runs: Path, seed: int, minutes: float | None) -> list[str]:
    """Make what is missing, first what needs no training; returns what could not be trained."""
    deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    there, failures = load_cells(table, folder), []
    missing = jobs([(s, c) for s, c in table.places if (s.name, c.name) not in there])
    with stop_signals() as signals:

        def is_over() -> bool:
            return bool(signals) or time.monotonic() > deadline

        for index, places in enumerate(missing):
            to_go = sum(map(len, missing[index:]))
            if signals or (index and is_over()):  # each call gets somewhere, however short
                console.print(f"Stopped; cells to go: {to_go}. The same command goes on.")
                break
            told = "; ".join(f"{system.label}, {column.label}" for system, column in places)
            console.print(f"{told} (cells to go: {to_go})", highlight=False)
            try:
                for cell in made(console, table, places, runs, seed, is_over):
                    keep(console, table, cell, folder)
            except Diverged as error:
                failures += [f"{system.name}, {column.label}: {error}" for system, column in places]
            except Stopped:
                console.print(f"Stopped in training; cells to go: {to_go}. The same command goes on.")
                break
    return failures


def jobs(places: list[Place]) -> list[list[Place]]:
    """The places that one training fills belong together; what is built comes first, each by itself."""
    found: dict[Place | str, list[Place]] = {}
    for place in sorted(places, key=lambda place: place[0].experiment is not None):
        found.setdefault(experiment_at(*place) or place, []).append(place)
    return list(found.values())


class Stopped(Exception):
    """A training was stopped before its end."""


def made(
    console: Console, table: PaperTable, places: list[Place], runs: Path, seed: int, is_over: Callable[[], bool]
) -> Iterator[Cell]:
    """The cells of one job, trained for if need be."""
    system, column = places[0]
    experiment = experiment_at(system, column)
    if experiment is None:
        yield cell_of(table, system, column, watch=bar(console, "Measuring"))
        return
    folder = runs / experiment
    resume = (folder / "config.json").exists()
    run = Run.open(named(experiment), folder, seed=seed, resume=resume, traced=traced_folder())
    if not run.trainer.is_done:
        for _ in shown(console, run):
            if is_over():
                break
        run.save()
    if not run.trainer.is_done:
        raise Stopped
    yield from cells_of_run(table, folder, places=places, watch=partial(bar, console))


def keep(console: Console, table: PaperTable, cell: Cell, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = save_cell(table, cell, folder)
    spread = f"({cell.low:.2f} to {cell.high:.2f})"
    console.print(f"{cell.value:.2f} {spread} over {cell.batches} batches: {path}", soft_wrap=True, highlight=False)


def draw(table: PaperTable, cells: dict[tuple[str, str], Cell], picture: Path) -> dict[str, Path]:
    """The pictures by what they show."""
    return draw_by_damage(table, cells, picture) if table.by_damage else draw_by_patterns(table, cells, picture)


def draw_by_damage(table: PaperTable, cells: dict[tuple[str, str], Cell], picture: Path) -> dict[str, Path]:
    from ..figures import Bar, bars_figure

    panels = {}
    for column in table.columns:
        bars = panels[column.label] = {}
        for system in (system for system, of in table.places if of == column):
            cell = cells.get((system.name, column.name))
            ours = None if cell is None else (cell.value, cell.low, cell.high)
            bars[system.label] = Bar(ours, table.published_for(system, column))
    save_figure(bars_figure(table.title, panels), picture)
    return {f"{table.title}, ours and the paper's": picture}


def draw_by_patterns(table: PaperTable, cells: dict[tuple[str, str], Cell], picture: Path) -> dict[str, Path]:
    from ..figures import table_figure, training_figure

    def ours(system: System) -> dict[int, float | int]:
        own = (cells.get((system.name, column.name)) for column in table.columns)
        return {cell.patterns: cell.value for cell in own if cell is not None}

    def theirs(system: System) -> dict[int, float | int]:
        printed = {column.patterns: table.published_for(system, column) for column in table.columns}
        return {count: value for count, value in printed.items() if count is not None and value is not None}

    kinds = {
        "trained": [system for system in table.systems if system.is_learned],
        "nothing learned": [system for system in table.systems if not system.is_learned],
    }
    panels = {
        kind: {system.label: {"ours": ours(system), "published": theirs(system)} for system in systems}
        for kind, systems in kinds.items()
        if systems
    }
    assert table.chance is not None
    save_figure(table_figure(table.title, panels, chance=table.chance), picture)
    pictures = {f"{table.title} against the number of patterns, ours and the paper's": picture}
    for system in (system for system in table.systems if system.name.startswith("ebmm")):
        curves = {
            f"{cell.patterns} patterns": [
                {"update": update, "error": error}
                for update, error in zip(cell.curve["update"], cell.curve["error"], strict=True)
            ]
            for cell in cells.values()
            if cell.curve is not None and cell.system == system.name
        }
        if curves:
            ending = "" if system.published else f"-{system.name}"  # another network than the paper's
            path = picture.with_name(f"{picture.stem}-training{ending}.png")
            save_figure(training_figure(curves), path)
            pictures[f"Wrong bits in training, {system.label}"] = path
    return pictures
