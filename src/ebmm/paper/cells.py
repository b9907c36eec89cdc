"""A cell of a table on disk: one JSON with the number, what it cost, and all that it takes to make it again."""

import json
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..baselines import VAE
from ..bundled import bundled_models
from ..careful import ENOUGH, LENGTHS, Careful
from ..evaluation.errors import Errors, Spread, Watch, measure_errors
from ..evaluation.protocols import PROTOCOLS, Protocol
from ..evaluation.report import FLOAT_BITS
from ..files import as_json, check_version, must_exist, write_whole
from ..interface import AbstractMemoryModel
from ..pretrained import describe, load_model, model_hash
from ..provenance import provenance
from ..rehearsal import Rehearsed
from ..training.run import metrics_of
from .search import RateErrors, rate_errors
from .tables import Column, PaperTable, Place, System, experiment_at, patterns_at

FORMAT, VERSION = "ebmm-cell", 1
SEED = 0  # of the test batches, which are the same for all systems
AT_ONCE = 40  # batches in a compiled call on an accelerator
POINTS = 100  # of a training curve that is kept


@dataclass(frozen=True)
class Cell:
    """What was measured of one system in one column."""

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
    damage: str | None = None
    """The column, in a table that has one for each kind of damage."""
    origin: dict[str, Any] = field(default_factory=dict)
    """Everything else in the file: what was built or trained, and the provenance."""

    @property
    def column(self) -> str:
        return str(self.patterns) if self.damage is None else self.damage


def cell_of(table: PaperTable, system: System, column: Column, *, watch: Watch = iter) -> Cell:
    """Measure a yardstick, or a system that learns nothing and is built."""
    model = None if system.build is None else system.build(patterns_at(system, column))
    cell = _measured(system, column, model, watch)
    command = f"ebmm table {table.name} --run {_choice(system, column)}"
    return replace(cell, origin={**cell.origin, **provenance(seed=SEED), "command": command})


def cells_of_run(
    table: PaperTable,
    folder: Path,
    *,
    places: Sequence[Place] | None = None,
    evaluation: Path | None = None,
    watch: Callable[[str], Watch] = lambda what: iter,
) -> Iterator[Cell]:
    """Measure the model of a run for every cell that its experiment trains, or for these places among them; or take the
    one cell that was measured already, by `ebmm evaluate`, from its file.
    """
    config = _config(folder / "config.json")
    experiment, name = config["experiment"], config["experiment"]["name"]
    places = _places(table, name, folder) if places is None else places
    lines = metrics_of(folder)
    if not lines:
        raise ValueError(f"{folder} has no metrics yet; train it first.")
    model, saved_as = load_model(folder / "model")
    if saved_as != name:
        raise ValueError(f"{folder} describes a run of {name} and holds the model {saved_as}; expected one run.")
    last, before = lines[-1], config.get("before") or {}
    kept = ("seed", "commit", "ebmm", "jax", "python", "device")
    measured = None if evaluation is None else _evaluation(evaluation)
    measuring = {key: value for key, value in (measured or provenance(seed=SEED)).items() if key in kept}
    if measured is not None:
        places = [place for place in places if _is_of(measured, *place, model)]
        if not places:
            raise ValueError(
                f"{evaluation} measured another model than {folder / 'model'}, or something else of it than the table "
                f"{table.name} shows; expected what `ebmm evaluate` measures of this model over the table's batches."
            )
    for system, column, ready, search in _ready(model, places):
        what = f"{system.label}, {column.label}"
        if measured is None:
            cell = _measured(system, column, ready, watch(what))
        else:
            given = (measured["iterates"], measured["wall_seconds"])
            cell = _cell(system, column, ready, ready.memory_size, *given)
        origin = {
            **cell.origin,
            **search,
            "experiment": experiment,
            "start": config.get("start"),
            "before": before,
            "command": _command(table, system, column, config),
            **{key: config.get(key) for key in kept},
            **{key: config[key] for key in ("xla_flags",) if key in config},
            "measured_with": measuring,
        }
        yield replace(
            cell,
            updates=last["update"] + before.get("updates", 0),
            minutes=last["seconds"] / 60 + before.get("minutes", 0),
            compile_minutes=last["compile_seconds"] / 60 + before.get("compile_minutes", 0),
            curve=thinned(lines),
            origin=origin,
        )


def _ready(
    model: AbstractMemoryModel, places: Sequence[Place]
) -> Iterator[tuple[System, Column, AbstractMemoryModel, dict[str, Any]]]:
    """The model as each place reads it, and how the step size was found; one search serves all rows of a column."""
    found: dict[str, RateErrors] = {}
    longest = max((system.read_steps or 0 for system, _ in places), default=0)
    for system, column in places:
        if system.read_steps is None:
            yield system, column, model, {}
            continue
        assert isinstance(model, VAE)
        if column.name not in found:
            key = jax.random.fold_in(jax.random.key(SEED), 2)
            found[column.name] = rate_errors(model, _protocol(system, column, model), steps=longest, key=key)
        errors, steps = found[column.name], system.read_steps
        yield system, column, model.read_with(steps=steps, rate=errors.best(steps)), {"search": errors.report(steps)}


def _protocol(system: System, column: Column, model: AbstractMemoryModel | None) -> Protocol:
    """The column's, with the patterns of the place; strings are as long as the model's."""
    given = PROTOCOLS[column.on]
    if model is not None and given.data == "strings":
        given = replace(given, bits=model.pattern_shape[0])
    return replace(given, patterns=patterns_at(system, column), reveal=given.reveal or column.name in system.told)


def _measured(system: System, column: Column, model: AbstractMemoryModel | None, watch: Watch) -> Cell:
    """On the batches of `ebmm evaluate --seed 0`, so that either command can check the other."""
    began = time.perf_counter()
    protocol = _protocol(system, column, model)
    errors = measure_errors(
        model,
        protocol.episodes(),
        key=jax.random.fold_in(jax.random.key(SEED), 0),
        metric=protocol.metric,
        batches=system.batches,
        at_once=None if jax.default_backend() == "cpu" else AT_ONCE,
        watch=watch,
    )
    iterates = [asdict(Spread.of(values)) for values in _iterates(system, errors).T]
    size = _floats(system, errors) if model is None else model.memory_size
    return _cell(system, column, model, size, iterates, time.perf_counter() - began)


def _cell(
    system: System,
    column: Column,
    model: AbstractMemoryModel | None,
    memory_size: int,
    iterates: list[dict[str, float]],
    seconds: float,
) -> Cell:
    """What was measured after every read step, in so many seconds, with what it was measured of."""
    protocol, last = _protocol(system, column, model), iterates[-1]
    origin = {
        "protocol": asdict(protocol),
        "model": None if model is None else _described(model),
        "measuring_minutes": seconds / 60,
    }
    return Cell(
        system.name,
        protocol.patterns,
        memory_size,
        last["mean"],
        last["low"],
        last["high"],
        system.batches,
        iterates,
        damage=column.damage,
        origin=origin,
    )


def _described(model: AbstractMemoryModel) -> dict[str, Any]:
    if isinstance(model, Careful):
        return {**_described(model.model), "careful": {"lengths": LENGTHS, "enough": ENOUGH}}
    if isinstance(model, Rehearsed):
        return {**_described(model.model), "rehearsal": model.rehearsal.report()}
    return {"hash": model_hash(model), **describe(model)}


def _evaluation(path: Path) -> dict[str, Any]:
    """What `ebmm evaluate --out` saved."""
    must_exist(path, "what ebmm evaluate saved")
    try:
        report = json.loads(path.read_bytes())
        numbers = (report["iterates"][-1]["mean"], report["wall_seconds"])
        if not report["model"]["hash"] or not all(isinstance(number, float | int) for number in numbers):
            raise ValueError
        return report
    except (ValueError, KeyError, TypeError, IndexError):
        raise ValueError(f"{path} is no evaluation of a model; expected what `ebmm evaluate --out` saves.") from None


def _is_of(report: dict[str, Any], system: System, column: Column, model: AbstractMemoryModel) -> bool:
    """Whether an evaluation is what would be measured here: this model, as learned, on the same batches."""
    expected = {**asdict(_protocol(system, column, model)), "split": "test", "batches": system.batches, "seed": SEED}
    expected |= {"shorter_steps": False, "read_steps": None}
    same = all(report.get(name) == value for name, value in expected.items())
    same = same and not report.get("careful") and not report.get("rehearsed")
    return same and system.read_steps is None and report["model"]["hash"] == model_hash(model)


def _iterates(system: System, errors: Errors) -> np.ndarray:
    """[batches, read steps]; a yardstick has one step."""
    found = errors.iterates if system.yardstick is None else getattr(errors, system.yardstick)[:, None]
    assert found is not None
    return found


def _floats(system: System, errors: Errors) -> int:
    """Of a yardstick's memory: only an exact store has one, and its bits are counted as floats."""
    return round(float(errors.exact_bits.mean()) / FLOAT_BITS) if system.yardstick == "exact" else 0


def _places(table: PaperTable, experiment: str, folder: Path) -> list[Place]:
    places = [place for place in table.places if experiment_at(*place) == experiment]
    if not places:
        raise ValueError(f"{folder} is a run of {experiment}, which is no cell of the table {table.name}.")
    return places


def _choice(system: System, column: Column) -> str:
    """The options that choose a cell, or a row where columns cannot be chosen."""
    return f"--only {system.name}" + ("" if column.patterns is None else f" --patterns {column.patterns}")


def _config(path: Path) -> dict[str, Any]:
    must_exist(path, "the description of a run")
    try:
        config = json.loads(path.read_bytes())
        config["experiment"]["name"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged; expected the description of a run.") from None
    return config


def _command(table: PaperTable, system: System, column: Column, config: dict[str, Any]) -> str:
    """How to make the cell again, with folders that anyone could have in place of those that it was made in."""
    name, words = config["experiment"]["name"], shlex.split(config.get("command") or "")
    if words[:2] == ["ebmm", "table"]:
        return f"ebmm table {table.name} --run {_choice(system, column)} --seed {config.get('seed')}"
    if words[:2] != ["ebmm", "train"]:
        words = ["ebmm", "train", name, "--out", "", "--seed", str(config.get("seed"))]
    places, plain = {"--out": f"runs/{name}", "--start": "MODEL"}, []
    for word in words:
        option, equals, value = word.partition("=")
        if plain and plain[-1] in places:
            option, equals, value = plain[-1], "", word
        elif not equals:
            option = ""  # no value, or not one of these
        if option in places and value not in bundled_models():  # whose names are the same everywhere
            word = f"{option}={places[option]}" if equals else places[option]
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


def path_of(folder: Path, system: str, column: str) -> Path:
    return folder / f"{system}-{column}.json"


def save_cell(table: PaperTable, cell: Cell, folder: Path) -> Path:
    content = asdict(cell)
    origin = content.pop("origin")
    path = path_of(folder, cell.system, cell.column)
    write_whole({path: as_json({"format": FORMAT, "version": VERSION, "table": table.name, **content, **origin})})
    return path


def load_cells(table: PaperTable, folder: Path) -> dict[tuple[str, str], Cell]:
    """All cells of the table that are in a folder, by system and column; other files are left alone."""
    places = [(system.name, column.name) for system, column in table.places]
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
    content.setdefault("damage", None)  # a table without such columns does without
    names = [each.name for each in fields(Cell) if each.name != "origin"]
    missing = [name for name in names if name not in content]
    wrong = [name for name in NUMBERS if not isinstance(content.get(name), int | float)]
    if missing or wrong:
        raise ValueError(f"{path} is damaged: {(missing or wrong)[0]} is missing or no number. {hint}")
    cell = Cell(**{name: content.pop(name) for name in names}, origin=content)
    if path != path_of(path.parent, cell.system, cell.column):
        what = f"{cell.patterns} patterns" if cell.damage is None else cell.damage
        raise ValueError(f"{path} holds the cell of {cell.system} with {what}: it is misnamed. {hint}")
    return cell
