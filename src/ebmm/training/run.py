"""A run on disk: a folder with `config.json`, `metrics.jsonl`, `checkpoints/` and, with the first of them, `model/`."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..baselines.hopfield import Hopfield
from ..core.model import EBMM
from ..data import DATASETS
from ..data.augmentation import Augmented
from ..data.binary import strings
from ..data.distortions import distortion
from ..data.episodes import Episodes
from ..data.images import AbstractPatterns
from ..evaluation.errors import measure_errors
from ..evaluation.protocols import PROTOCOLS
from ..experiments import Experiment
from ..files import digest, must_exist, write_whole
from ..initial import new_model
from ..interface import AbstractMemoryModel
from ..pretrained import NETWORKS, save_model
from ..provenance import provenance
from .checkpoint import Checkpoints
from .trainer import Point, Trainer

WINDOW = 25
"""Updates that a line of `metrics.jsonl` averages over."""


@dataclass
class Run:
    """An experiment that trains into a folder."""

    experiment: Experiment
    seed: int
    folder: Path
    trainer: Trainer
    test_episodes: Episodes

    @classmethod
    def open(cls, experiment: Experiment, folder: Path, *, seed: int = 0, resume: bool = False) -> "Run":
        """A new run in an empty folder, or one that goes on."""
        fingerprint = digest({}, {"experiment": asdict(experiment), "seed": seed})
        checkpoints = Checkpoints(folder / "checkpoints", fingerprint)
        exists = (folder / "config.json").exists()
        if resume and not exists:
            raise FileNotFoundError(f"{folder} holds no run to resume; leave --resume out to start one.")
        if exists and not resume:
            raise ValueError(f"{folder} holds a run already; resume it with --resume, or choose another folder.")
        if resume:
            _check_config(folder / "config.json", fingerprint, experiment.name, seed)
        network_key, batch_key, train_key, _ = jax.random.split(jax.random.key(seed), 4)
        protocol = PROTOCOLS[experiment.on]
        train, test = sources(experiment)
        damage = distortion(protocol.damage)

        @cache  # the same object for the same stage, so that its images are put on the accelerator once
        def episodes_of(patterns: int) -> Episodes:
            return Episodes(train, damage, patterns, reveal=protocol.reveal)

        last = experiment.settings.stages[-1].patterns
        first_batch = episodes_of(experiment.settings.stages[0].patterns)(batch_key).patterns
        model = new_model(
            NETWORKS[experiment.network](**network_sizes(experiment), key=network_key),
            first_batch,
            domain=train.domain,
            write_steps=experiment.steps,
            read_steps=experiment.steps,
            initial=experiment.settings.initial,
        )
        trainer = Trainer.start(
            model, episodes_of, experiment.settings, metric=protocol.metric, key=train_key, checkpoints=checkpoints
        )

        run = cls(experiment, seed, folder, trainer, Episodes(test, damage, last, reveal=protocol.reveal))
        if not resume:
            folder.mkdir(parents=True, exist_ok=True)
            config = {"experiment": asdict(experiment), "fingerprint": fingerprint, **provenance(seed=seed)}
            write_whole({folder / "config.json": (json.dumps(config, indent=2) + "\n").encode()})
        if checkpoints.newest() is None:  # new, or killed before its first checkpoint
            trainer.save()
        else:
            trainer.resume()
            run._forget_after(trainer.progress.update)
        return run

    def train(self) -> Iterator[Point]:
        """Yields after every compiled call. Whoever stops iterating calls `save`."""
        window: list[Point] = []
        with (self.folder / "metrics.jsonl").open("a") as metrics:
            for point in self.trainer.train():
                if point.pop("snapshot", False):
                    point["held_out"] = self.held_out_error()
                    self.save_model()
                window.append(point)
                if point["update"] % WINDOW == 0 or "event" in point or "held_out" in point:
                    metrics.write(json.dumps(averaged(window)) + "\n")
                    metrics.flush()
                    window = []
                yield point

    def held_out_error(self) -> float | None:
        """The model's error on a few test batches, the same ones every time."""
        batches = self.experiment.held_out
        if batches == 0:
            return None
        key = jax.random.split(jax.random.key(self.seed), 4)[3]
        metric = PROTOCOLS[self.experiment.on].metric
        errors = measure_errors(self.trainer.learner.best, self.test_episodes, key=key, metric=metric, batches=batches)
        return float(np.mean(errors.read))

    def comparison(self, batches: int = 200) -> dict[str, float]:
        """The model's error on test batches, and those of the systems to put beside it."""
        best, episodes, metric = self.trainer.learner.best, self.test_episodes, PROTOCOLS[self.experiment.on].metric
        shape = episodes.source.pattern_shape
        systems: dict[str, AbstractMemoryModel] = {self.experiment.name: best}
        for rule in self.experiment.beside:
            for order in ("asynchronous", "synchronous"):
                systems[f"Hopfield, {rule}, {order}"] = Hopfield(pattern_shape=shape, rule=rule, order=order)
        key = jax.random.fold_in(jax.random.key(self.seed), 1)
        return {
            name: float(np.mean(measure_errors(each, episodes, key=key, metric=metric, batches=batches).read))
            for name, each in systems.items()
        }

    def save(self) -> None:
        """Keep the state as it is now, and the model."""
        self.trainer.save()
        self.save_model()

    def save_model(self) -> None:
        best = self.trainer.learner.best
        assert isinstance(best, EBMM)
        save_model(best, self.folder / "model", name=self.experiment.name)

    def _forget_after(self, update: int) -> None:
        """Drop the lines of updates that were lost when the run was killed and will be done again."""
        path = self.folder / "metrics.jsonl"
        if path.exists():
            lines = [line for line in path.read_text().splitlines() if _update_of(line) <= update]
            write_whole({path: "".join(f"{line}\n" for line in lines).encode()})


def metrics_of(folder: Path) -> list[Point]:
    """The lines of a run's metrics; one that was cut off when the run was killed is left out."""
    path = folder / "metrics.jsonl"
    must_exist(path, "the metrics of a run")
    return [json.loads(line) for line in path.read_text().splitlines() if _update_of(line) < float("inf")]


def sources(experiment: Experiment) -> tuple[AbstractPatterns, AbstractPatterns]:
    """The patterns to learn from and those to test on; an image of the test set is never among the former."""
    data = PROTOCOLS[experiment.on].data
    if data == "strings":
        return strings(experiment.bits), strings(experiment.bits)
    train, test = (DATASETS[data].images(split) for split in ("train", "test"))
    train = train.without(test)
    return (Augmented(train) if experiment.settings.augment else train), test


def network_sizes(experiment: Experiment) -> dict[str, Any]:
    return {"bits": experiment.bits, **experiment.sizes} if experiment.network == "GatedRNN" else experiment.sizes


def averaged(points: list[Point]) -> Point:
    """One line for many points: means of what is measured, the last of everything else."""
    means = {name: float(np.mean([point[name] for point in points])) for name in ("loss", "error", "norm")}
    return {**points[-1], **means, "dropped": sum(point["dropped"] for point in points)}


def _update_of(line: str) -> float:
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # the last line of a killed run may be cut


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
