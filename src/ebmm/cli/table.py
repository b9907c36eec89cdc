"""`ebmm table`: a table of the paper, ours beside theirs, and the work that fills it."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from ..checks import check_seed
from ..files import as_json
from ..paper import (
    TABLES,
    Cell,
    PaperTable,
    System,
    as_markdown,
    as_objects,
    as_rich,
    cell_of,
    cell_of_run,
    load_cells,
    save_cell,
)
from ..training.progress import Diverged
from ..training.run import Run
from .output import bar, check_place, save_figure, told_plainly
from .train import named, shown, stop_signals


def table(
    name: str = "binary",
    /,
    *,
    run: bool = False,
    add: tuple[Path, ...] = (),
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
        name: binary, wrong bits of random strings against their number.
        run: Make the cells that are missing: train into --runs, measure, save. A cell that is there is left alone.
        add: Folders of runs, as `ebmm train` leaves them, to measure and to put into the table.
        only: These systems only, by name or by its beginning: ebmm-rnn, hopfield, hopfield-hebb-synchronous, …
        patterns: These numbers of patterns only.
        minutes: Stop after so many minutes; a training that is not done goes on the next time.
        seed: Of the trainings. The test batches are the same whatever it is.
        results: The folder of the cells, one JSON each; results/NAME if left out.
        runs: Where the trainings go, each into a folder named after its experiment.
        markdown: Print a page of Markdown.
        json: Print a list of objects, and nothing else.
        picture: Where to save a picture of the table; EBMM's training curves go beside it, into …-training.png.
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
        whole, folder = TABLES[name], Path("results") / name if results is None else results
        chosen = whole.chosen(only, patterns)
        load_cells(chosen, folder)  # a broken one is told before hours of work, not after
        for each in add:
            cell = cell_of_run(whole, each, watch=bar(console, f"Measuring {each.name}"))
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
        if len(cells) < len(chosen.systems) * len(chosen.patterns):
            console.print(f"Not all cells are in {folder}. Make them with: ebmm table {name} --run", soft_wrap=True)
    if failures:
        raise SystemExit("\n".join(f"ebmm: {failure}" for failure in failures))


def fill(console: Console, table: PaperTable, folder: Path, runs: Path, seed: int, minutes: float | None) -> list[str]:
    """Make what is missing, first what needs no training; returns what could not be trained."""
    deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    there, failures = load_cells(table, folder), []
    systems = sorted(table.systems, key=lambda system: system.build is None)
    missing = [(s, n) for s in systems for n in table.patterns if (s.name, n) not in there]
    with stop_signals() as signals:

        def is_over() -> bool:
            return bool(signals) or time.monotonic() > deadline

        for index, (system, patterns) in enumerate(missing):
            if signals or (index and is_over()):  # each call gets somewhere, however short
                console.print(f"Stopped; cells to go: {len(missing) - index}. The same command goes on.")
                break
            console.print(f"{system.label}, {patterns} patterns ({index + 1} of {len(missing)})", highlight=False)
            try:
                cell = make(console, table, system, patterns, runs, seed, is_over)
            except Diverged as error:
                failures.append(f"{system.name} with {patterns} patterns: {error}")
                continue
            if cell is None:
                console.print(f"Stopped in training; cells to go: {len(missing) - index}. The same command goes on.")
                break
            keep(console, table, cell, folder)
    return failures


def make(
    console: Console,
    table: PaperTable,
    system: System,
    patterns: int,
    runs: Path,
    seed: int,
    is_over: Callable[[], bool],
) -> Cell | None:
    """One cell, or None where its training was stopped before its end."""
    watch = bar(console, "Measuring")
    experiment = table.experiment_for(system, patterns)
    if experiment is None:
        return cell_of(table, system, patterns, watch=watch)
    folder = runs / experiment
    run = Run.open(named(experiment), folder, seed=seed, resume=(folder / "config.json").exists())
    if not run.trainer.is_done:
        for _ in shown(console, run):
            if is_over():
                break
        run.save()
    return cell_of_run(table, folder, watch=watch) if run.trainer.is_done else None


def keep(console: Console, table: PaperTable, cell: Cell, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = save_cell(table, cell, folder)
    spread = f"({cell.low:.2f} to {cell.high:.2f})"
    console.print(f"{cell.value:.2f} {spread} over {cell.batches} batches: {path}", soft_wrap=True, highlight=False)


def draw(table: PaperTable, cells: dict[tuple[str, int], Cell], picture: Path) -> dict[str, Path]:
    """The pictures by what they show."""
    from ..figures import table_figure, training_figure

    kinds = {
        "trained": [system for system in table.systems if system.experiment is not None],
        "nothing learned": [system for system in table.systems if system.experiment is None],
    }
    panels = {
        kind: {
            system.label: {
                "ours": {n: cells[system.name, n].value for n in table.patterns if (system.name, n) in cells},
                "published": {
                    n: value for n in table.patterns if (value := table.published_for(system, n)) is not None
                },
            }
            for system in systems
        }
        for kind, systems in kinds.items()
        if systems
    }
    save_figure(table_figure(table.title, panels, chance=table.chance), picture)
    pictures = {f"{table.title} against the number of patterns, ours and the paper's": picture}
    curves = {
        f"{cell.patterns} patterns": [
            {"update": update, "error": error}
            for update, error in zip(cell.curve["update"], cell.curve["error"], strict=True)
        ]
        for cell in cells.values()
        if cell.curve is not None and cell.system.startswith("ebmm")
    }
    if curves:
        path = picture.with_name(f"{picture.stem}-training.png")
        save_figure(training_figure(curves), path)
        pictures["Wrong bits in training, EBMM"] = path
    return pictures
