"""A cell of a table on disk: one JSON with the number, what it cost, and all that it takes to make it again."""

import json
import shlex
import time
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..evaluation.errors import Spread, Watch, measure_errors
from ..evaluation.protocols import PROTOCOLS
from ..files import as_json, check_version, must_exist, write_whole
from ..interface import AbstractMemoryModel
from ..pretrained import describe, load_model, model_hash
from ..provenance import provenance
from ..training.run import metrics_of
from .tables import PaperTable, System

FORMAT, VERSION = "ebmm-cell", 1
SEED = 0  # of the test batches, which are the same for all systems
POINTS = 100  # of a training curve that is kept


@dataclass(frozen=True)
class Cell:
    """What was measured of one system with one number of patterns."""

    system: str
    patterns: int
    memory_size: int
    """Floats."""
    value: float
    """The mean error over the test batches, after the last read step."""
    low: float
    high: float
    """The 5- and 95-percentiles."""
    batches: int
    iterates: list[dict[str, float]]
    """The same three numbers after every read step."""
    updates: int | None = None
    minutes: float | None = None
    """Of training, without compiling, on the `device`; None where nothing is learned."""
    compile_minutes: float | None = None
    curve: dict[str, list[float | int]] | None = None
    """`update` and `error` of the training, averaged to a hundred points."""
    origin: dict[str, Any] = field(default_factory=dict)
    """Everything else in the file: what was built or trained, and the provenance."""


def cell_of(table: PaperTable, system: System, patterns: int, *, watch: Watch = iter) -> Cell:
    """Build a system that learns nothing, and measure it."""
    assert system.build is not None
    model = system.build(patterns)
    command = f"ebmm table {table.name} --run --only {system.name} --patterns {patterns}"
    cell = _measured(table, system, patterns, model, watch)
    return replace(cell, origin={**cell.origin, **provenance(seed=SEED), "command": command})


def cell_of_run(table: PaperTable, folder: Path, *, watch: Watch = iter) -> Cell:
    """Measure the model of a run; its place in the table follows from its experiment."""
    config = _config(folder / "config.json")
    experiment, name = config["experiment"], config["experiment"]["name"]
    system, patterns = _place(table, name, folder)
    lines = metrics_of(folder)
    if not lines:
        raise ValueError(f"{folder} has no metrics yet; train it first.")
    model, saved_as = load_model(folder / "model")
    if saved_as != name:
        raise ValueError(f"{folder} describes a run of {name} and holds the model {saved_as}; expected one run.")
    cell = _measured(table, system, patterns, model, watch)
    last = lines[-1]
    kept = ("seed", "commit", "ebmm", "jax", "python", "device")
    measuring = {key: value for key, value in provenance(seed=SEED).items() if key in kept}
    origin = {
        **cell.origin,
        "experiment": experiment,
        "start": config.get("start"),
        "command": _command(table, system, patterns, config),
        **{key: config.get(key) for key in kept},
        "measured_with": measuring,
    }
    return replace(
        cell,
        updates=last["update"],
        minutes=last["seconds"] / 60,
        compile_minutes=last["compile_seconds"] / 60,
        curve=thinned(lines),
        origin=origin,
    )


def _measured(table: PaperTable, system: System, patterns: int, model: AbstractMemoryModel, watch: Watch) -> Cell:
    """On the batches of `ebmm evaluate --seed 0`, so that either command can check the other."""
    began = time.perf_counter()
    protocol = replace(PROTOCOLS[table.on], patterns=patterns, bits=model.pattern_shape[0])
    key = jax.random.fold_in(jax.random.key(SEED), 0)
    errors = measure_errors(
        model, protocol.episodes(), key=key, metric=protocol.metric, batches=system.batches, watch=watch
    )
    assert errors.iterates is not None
    spread = Spread.of(errors.read)
    origin = {
        "protocol": asdict(protocol),
        "model": {"hash": model_hash(model), **describe(model)},
        "measuring_minutes": (time.perf_counter() - began) / 60,
    }
    return Cell(
        system.name,
        patterns,
        model.memory_size,
        spread.mean,
        spread.low,
        spread.high,
        system.batches,
        [asdict(Spread.of(values)) for values in errors.iterates.T],
        origin=origin,
    )


def _place(table: PaperTable, experiment: str, folder: Path) -> tuple[System, int]:
    places = {
        table.experiment_for(system, patterns): (system, patterns)
        for system in table.systems
        for patterns in table.patterns
        if system.experiment is not None
    }
    if experiment not in places:
        raise ValueError(f"{folder} is a run of {experiment}, which is no cell of the table {table.name}.")
    return places[experiment]


def _config(path: Path) -> dict[str, Any]:
    must_exist(path, "the description of a run")
    try:
        config = json.loads(path.read_bytes())
        config["experiment"]["name"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged; expected the description of a run.") from None
    return config


def _command(table: PaperTable, system: System, patterns: int, config: dict[str, Any]) -> str:
    """How to make the cell again, with folders that anyone could have in place of those that it was made in."""
    name, words = config["experiment"]["name"], shlex.split(config.get("command") or "")
    if words[:2] == ["ebmm", "table"]:
        return f"ebmm table {table.name} --run --only {system.name} --patterns {patterns} --seed {config.get('seed')}"
    if words[:2] != ["ebmm", "train"]:
        words = ["ebmm", "train", name, "--out", "", "--seed", str(config.get("seed"))]
    places, plain = {"--out": f"runs/{name}", "--start": "MODEL"}, []
    for word in words:
        option, equals, _ = word.partition("=")
        if plain and plain[-1] in places:
            word = places[plain[-1]]
        elif equals and option in places:
            word = f"{option}={places[option]}"
        plain.append(word)
    return f"{shlex.join(plain)} && ebmm table {table.name} --add runs/{name}"


def thinned(lines: list[dict[str, Any]]) -> dict[str, list[float | int]]:
    """The errors of a run's metrics, averaged over stretches of equal length."""
    found = [(line["update"], line["error"]) for line in lines if line.get("error") is not None]
    parts = np.array_split(np.array(found, float).reshape(-1, 2), min(POINTS, max(len(found), 1)))
    return {
        "update": [int(part[-1, 0]) for part in parts if len(part)],
        "error": [float(part[:, 1].mean()) for part in parts if len(part)],
    }


def path_of(folder: Path, system: str, patterns: int) -> Path:
    return folder / f"{system}-{patterns}.json"


def save_cell(table: PaperTable, cell: Cell, folder: Path) -> Path:
    content = asdict(cell)
    origin = content.pop("origin")
    path = path_of(folder, cell.system, cell.patterns)
    write_whole({path: as_json({"format": FORMAT, "version": VERSION, "table": table.name, **content, **origin})})
    return path


def load_cells(table: PaperTable, folder: Path) -> dict[tuple[str, int], Cell]:
    """All cells of the table that are in a folder, by system and patterns; other files are left alone."""
    places = [(system.name, patterns) for system in table.systems for patterns in table.patterns]
    return {place: load_cell(path_of(folder, *place)) for place in places if path_of(folder, *place).exists()}


NUMBERS = ("patterns", "memory_size", "value", "low", "high", "batches")


def load_cell(path: Path) -> Cell:
    """The cell in a file that is named after it, or a ValueError that says what is wrong with it."""
    must_exist(path, "a cell of a table")
    hint = "Restore it, or delete it and make it again with --run."
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}). {hint}") from None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise ValueError(f"{path} is no cell of a table; expected a JSON object of format {FORMAT}. {hint}")
    check_version(path, content.pop("version", None))
    names = [each.name for each in fields(Cell) if each.name != "origin"]
    missing = [name for name in names if name not in content]
    wrong = [name for name in NUMBERS if not isinstance(content.get(name), int | float)]
    if missing or wrong:
        raise ValueError(f"{path} is damaged: {(missing or wrong)[0]} is missing or no number. {hint}")
    cell = Cell(**{name: content.pop(name) for name in names}, origin=content)
    if path != path_of(path.parent, cell.system, cell.patterns):
        raise ValueError(
            f"{path} holds the cell of {cell.system} with {cell.patterns} patterns: it is misnamed. {hint}"
        )
    return cell
