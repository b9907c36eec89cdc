"""A run on disk: a folder with `config.json`, `metrics.jsonl`, `checkpoints/` and, with the first of them, `model/`."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..baselines import SYSTEMS, Hopfield
from ..bundled import model_folder
from ..checks import check_seed
from ..data import DATASETS
from ..data.augmentation import Augmented
from ..data.binary import strings
from ..data.distortions import distortion
from ..data.episodes import Episodes
from ..data.images import AbstractPatterns, Correlated
from ..evaluation.errors import measure_errors
from ..evaluation.protocols import PROTOCOLS
from ..experiments import Experiment
from ..fewer import to_learn_with
from ..files import as_json, digest, must_exist, write_whole
from ..initial import new_model
from ..interface import AbstractMemoryModel
from ..longer import to_learn_in
from ..pretrained import NETWORKS, describe, load_model, model_hash, save_model, trained_of
from ..provenance import provenance
from .checkpoint import Checkpoints
from .parallel import agreed, all_devices, everywhere, here, is_writer
from .traced import TracedUpdates
from .trainer import COUNTS, Point, Trainer

WINDOW = 25
"""Updates that a line of `metrics.jsonl` averages over."""
COSTS = ("updates", "minutes", "compile_minutes")
"""What a model has cost, as it tells of itself."""


@dataclass
class Run:
    """An experiment that trains into a folder. Of several processes, the first writes."""

    experiment: Experiment
    seed: int
    folder: Path
    trainer: Trainer
    test_episodes: Episodes
    before: dict[str, int | float] = field(default_factory=dict)
    """What the model had cost that the run started from: updates and minutes."""
    window: list[Point] = field(default_factory=list)
    """Points since the last line of the metrics."""

    @classmethod
    def open(
        cls,
        experiment: Experiment,
        folder: Path,
        *,
        seed: int = 0,
        resume: bool = False,
        start: Path | None = None,
        traced: Path | None = None,
    ) -> "Run":
        """A new run in an empty folder, or one that goes on.

        `start` is a saved model to start from, in place of the experiment's own; where it was trained for another
        number of patterns than the first stage has, its write steps are made to fit. `traced` is a folder for what has
        been traced.
        """
        check_seed(seed)
        if start is None and experiment.start is not None:
            start = model_folder(experiment.start)[0]
        given, trained = (None, None) if start is None else (load_model(start)[0], trained_of(start))
        fingerprint = identity(experiment, seed, given)
        checkpoints = Checkpoints(folder / "checkpoints", fingerprint)
        _check_folder(folder, resume=resume)
        if resume:
            _check_config(folder / "config.json", fingerprint, experiment.name, seed)
        network_key, batch_key, train_key, _ = jax.random.split(jax.random.key(seed), 4)
        before = {} if start is None else cost_of(start)
        if start is not None:  # with the same seed as before, it would meet the same batches again
            train_key = jax.random.fold_in(train_key, int(before.get("updates", 0)))
        protocol, mesh = PROTOCOLS[experiment.on], all_devices()
        train, test = jax.device_put(sources(experiment))  # here and once, whatever the number of stages
        damage = distortion(protocol.damage)

        @cache
        def episodes_of(patterns: int) -> Episodes:
            copies = experiment.settings.copies
            return everywhere(Episodes(train, damage, patterns, reveal=protocol.reveal, copies=copies), mesh)

        first_batch = train.draw(experiment.settings.stages[0].patterns, key=batch_key)
        model = fresh_model(experiment, train, first_batch, key=network_key)
        if given is not None:
            given = to_learn_in(given, write_steps=experiment.write_steps, read_steps=experiment.read_steps)
            if describe(given) != describe(model):
                raise ValueError(f"{start} holds another model than {experiment.name} trains; start from one like it.")
            model = to_learn_with(given, experiment.settings.stages[0].patterns, (trained or {}).get("patterns"))
        trainer = Trainer.start(
            model,
            episodes_of,
            experiment.settings,
            metric=protocol.metric,
            key=train_key,
            checkpoints=checkpoints,
            mesh=mesh,
            traced=None if traced is None else TracedUpdates(traced, identity(unplanned(experiment), 0)),
        )
        last = experiment.settings.stages[-1].patterns
        run = cls(experiment, seed, folder, trainer, Episodes(test, damage, last, reveal=protocol.reveal), before)
        if not resume and is_writer():
            folder.mkdir(parents=True, exist_ok=True)
            started = {"start": None if given is None else model_hash(given), "before": before}
            config = {"experiment": asdict(experiment), **started, "fingerprint": fingerprint, **provenance(seed=seed)}
            write_whole({folder / "config.json": as_json(config)})
        if checkpoints.newest() is None:  # new, or killed before its first checkpoint
            trainer.save()
        else:
            trainer.resume()
            run._forget_after(trainer.progress.update)
        agreed(True)  # no process goes on before the files are there
        return run

    def train(self) -> Iterator[Point]:
        """Yields after every compiled call. Whoever stops iterating before the end calls `save`."""
        for point in self.trainer.train():
            self.window.append(point)
            if point.get("snapshot"):
                # The line first: a kill in between loses both, and both are made again.
                point["held_out"] = self.held_out_error() if is_writer() else None
                self._write_line()
                self.save()
            elif point["update"] % WINDOW == 0 or "event" in point:
                self._write_line()
            yield point

    def held_out_error(self) -> float | None:
        """The model's error on a few test batches of the last stage, the same ones every time."""
        batches = self.experiment.held_out
        if batches == 0:
            return None
        key = jax.random.split(jax.random.key(self.seed), 4)[3]
        metric, model = PROTOCOLS[self.experiment.on].metric, self.model
        if self.experiment.settings.rescale:
            model = to_learn_with(model, self.test_episodes.patterns, self.trainer.stage.patterns)
        return float(np.mean(measure_errors(model, self.test_episodes, key=key, metric=metric, batches=batches).read))

    def comparison(self, batches: int = 200) -> dict[str, float]:
        """The model's error on test batches, and those of the systems to put beside it."""
        episodes, metric = self.test_episodes, PROTOCOLS[self.experiment.on].metric
        systems: dict[str, AbstractMemoryModel] = {self.experiment.name: self.model}
        for rule in self.experiment.beside:
            for order in ("asynchronous", "synchronous"):
                shape = episodes.source.pattern_shape
                systems[f"Hopfield, {rule}, {order}"] = Hopfield(pattern_shape=shape, rule=rule, order=order)
        key = jax.random.fold_in(jax.random.key(self.seed), 1)
        return {
            name: float(np.mean(measure_errors(each, episodes, key=key, metric=metric, batches=batches).read))
            for name, each in systems.items()
        }

    @property
    def model(self) -> AbstractMemoryModel:
        """The model as it is now, on this process."""
        best = self.trainer.learner.best
        return best if self.trainer.mesh is None else here(best)

    def save(self) -> None:
        """Keep the state as it is now, and the model."""
        if is_writer():
            progress = self.trainer.progress
            own = (progress.update, progress.seconds / 60, progress.compile_seconds / 60)
            cost = {name: self.before.get(name, 0) + spent for name, spent in zip(COSTS, own, strict=True)}
            trained = {"on": self.experiment.on, "patterns": self.trainer.stage.patterns, **cost}
            save_model(self.model, self.folder / "model", name=self.experiment.name, trained=trained)
            self._keep_window()
        self.trainer.save()

    def _write_line(self) -> None:
        if is_writer():
            with (self.folder / "metrics.jsonl").open("ab") as metrics:
                metrics.write(json.dumps(json.loads(as_json(averaged(self.window)))).encode() + b"\n")
        self.window = []

    def _keep_window(self) -> None:
        """A run that is stopped between two lines goes on with the points that the next line averages over."""
        write_whole({self.folder / "window.json": as_json(self.window)})

    def _forget_after(self, update: int) -> None:
        """Drop the lines of updates that were lost when the run was killed and will be done again."""
        kept = self.folder / "window.json"
        points = json.loads(kept.read_bytes()) if kept.exists() else []
        if points and points[-1]["update"] == update:
            self.window = [{n: float("nan") if v is None and n in MEANS else v for n, v in p.items()} for p in points]
        path = self.folder / "metrics.jsonl"
        if is_writer() and path.exists():
            lines = [line for line in path.read_text().splitlines() if _update_of(line) <= update]
            write_whole({path: "".join(f"{line}\n" for line in lines).encode()})


def cost_of(model: Path) -> dict[str, int | float]:
    """What a saved model tells of the updates and minutes that its training took, all runs together."""
    trained = trained_of(model) or {}
    return {name: trained[name] for name in COSTS if isinstance(trained.get(name), int | float)}


def identity(experiment: Experiment, seed: int, start: AbstractMemoryModel | None = None) -> str:
    """A hash of all that the numbers of a run depend on; words about it are not among them."""
    protocol = PROTOCOLS[experiment.on]
    dataset = DATASETS.get(protocol.data)
    description = {
        "network": experiment.network,
        "sizes": network_sizes(experiment),
        "write_steps": experiment.write_steps,
        "read_steps": experiment.read_steps,
        "gradient_term": experiment.gradient_term,
        "settings": asdict(experiment.settings),
        "protocol": asdict(protocol),
        "data_version": None if dataset is None else dataset.version,
        "seed": seed,
        "start": None if start is None else {"hash": model_hash(start), "batches": "of its own"},
    }
    return digest({}, description)


def unplanned(experiment: Experiment) -> Experiment:
    """The same for any length: how long a run is to be makes no difference to a single update."""
    return replace(experiment, settings=replace(experiment.settings, updates=1, minutes=None))


def sources(experiment: Experiment) -> tuple[AbstractPatterns, AbstractPatterns]:
    """The patterns to learn from and those to test on; an image of the test set is never among the former."""
    protocol = PROTOCOLS[experiment.on]
    if protocol.data == "strings":
        return strings(experiment.bits), strings(experiment.bits)
    train, test = (DATASETS[protocol.data].images(split) for split in ("train", "test"))
    train = train.without(test)
    if protocol.classes is not None:
        if experiment.settings.augment:
            raise ValueError(f"{experiment.name}: batches of a few classes cannot be augmented; drop one of the two.")
        return Correlated(train, classes=protocol.classes), Correlated(test, classes=protocol.classes)
    return (Augmented(train) if experiment.settings.augment else train), test


def fresh_model(
    experiment: Experiment, source: AbstractPatterns, batch: Array, *, key: PRNGKeyArray
) -> AbstractMemoryModel:
    """What training starts from; the rates of an energy are fitted on a batch."""
    if experiment.network in SYSTEMS:
        system: Any = SYSTEMS[experiment.network]
        return system(source.pattern_shape, domain=source.domain, **experiment.sizes, key=key)
    return new_model(
        NETWORKS[experiment.network](**network_sizes(experiment), key=key),
        batch,
        domain=source.domain,
        write_steps=experiment.write_steps,
        read_steps=experiment.read_steps,
        initial=experiment.settings.initial,
        gradient_term=experiment.gradient_term,
    )


def network_sizes(experiment: Experiment) -> dict[str, Any]:
    of_strings = experiment.network in ("GatedRNN", "MixedRNN", "StringReconstruction")
    return {"bits": experiment.bits, **experiment.sizes} if of_strings else experiment.sizes


MEANS = ("loss", "error", "norm")


def averaged(points: list[Point]) -> Point:
    """One line for many points: means of what is measured and finite, the last of everything else."""
    means = {}
    for name in MEANS:
        values = [point[name] for point in points if np.isfinite(point[name])]
        means[name] = float(np.mean(values)) if values else float("nan")
    counts = {name: sum(point[name] for point in points) for name in COUNTS}
    line = {**points[-1], **means, **counts}
    line.pop("snapshot", None)
    return line


def metrics_of(folder: Path) -> list[Point]:
    """The lines of a run's metrics; one that was cut off when the run was killed is left out."""
    path = folder / "metrics.jsonl"
    must_exist(path, "the metrics of a run")
    return [json.loads(line) for line in path.read_text().splitlines() if _update_of(line) < float("inf")]


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _check_folder(folder: Path, *, resume: bool) -> None:
    """All processes go by what the first one sees."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder for the run.")
    has_config = agreed((folder / "config.json").exists())
    has_rest = agreed(any((folder / name).exists() for name in ("checkpoints", "metrics.jsonl")))
    if resume and not has_config:
        raise FileNotFoundError(f"{folder} holds no run to resume; leave --resume out to start one.")
    if not resume and (has_config or has_rest):
        raise ValueError(f"{folder} holds a run already; resume it with --resume, or choose another folder.")


def _check_config(path: Path, fingerprint: str, name: str, seed: int) -> None:
    try:
        config = json.loads(path.read_bytes())
        own, given = config["fingerprint"], (config["experiment"]["name"], config["seed"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged; expected the description of a run.") from None
    if own != fingerprint:
        raise ValueError(
            f"{path.parent} holds a run of {given[0]} with seed {given[1]}, perhaps with other settings; got {name} "
            f"with seed {seed}. Resume it as it was started."
        )
