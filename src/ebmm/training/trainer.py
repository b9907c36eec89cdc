"""The training engine: calls the compiled updates, watches over them, and keeps what is needed to go back or go on."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..core.model import EBMM
from ..data.episodes import Episodes
from ..interface import AbstractMemoryModel
from ..loops import Loop
from .checkpoint import Checkpoints, Snapshot
from .progress import Progress
from .settings import Settings, Stage
from .update import Learner, Report, run_updates

Point = dict[str, Any]
"""What is told of a call: numbers by name, and `event` where something happened."""


def updates_in_a_call() -> int:
    """On a CPU XLA runs the body of an outer loop on fewer threads, and one update a call is faster."""
    return 1 if jax.default_backend() == "cpu" else 25


@dataclass
class Trainer:
    """One run. Iterating over `train` does the work; the state between two points is always whole."""

    settings: Settings
    episodes_of: Callable[[int], Episodes]
    """The episodes of a stage, from its number of patterns."""
    metric: str
    key: PRNGKeyArray
    learner: Learner
    progress: Progress
    snapshots: list[Snapshot]
    checkpoints: Checkpoints | None = None
    call: int = 0
    compiled: set[Stage] = field(default_factory=set)

    @classmethod
    def start(
        cls,
        model: AbstractMemoryModel,
        episodes_of: Callable[[int], Episodes],
        settings: Settings,
        *,
        metric: str,
        key: PRNGKeyArray,
        checkpoints: Checkpoints | None = None,
        call: int | None = None,
    ) -> "Trainer":
        """A run from its beginning; `call` updates are run in one compiled call."""
        if isinstance(model, EBMM):
            loop = Loop(model.loop.unroll, remat=settings.remat, cotangent_limit=settings.cotangent_limit)
            model = replace(model, loop=loop)
        learner, progress = Learner.of(model, settings), Progress()
        trainer = cls(settings, episodes_of, metric, key, learner, progress, [Snapshot(learner, progress)])
        trainer.checkpoints = checkpoints
        trainer.call = min(updates_in_a_call() if call is None else call, settings.snapshot)
        if settings.snapshot % trainer.call:
            raise ValueError(
                f"snapshot: got {settings.snapshot}; expected a multiple of {trainer.call} updates a call."
            )
        return trainer

    def resume(self) -> None:
        """Go on from the newest checkpoint."""
        assert self.checkpoints is not None
        current, self.snapshots = self.checkpoints.load(self.learner)
        self.learner, self.progress = current.learner, current.progress

    def save(self) -> None:
        if self.checkpoints is not None:
            self.checkpoints.save(Snapshot(self.learner, self.progress), self.snapshots)

    @property
    def is_done(self) -> bool:
        return self.progress.update >= self.settings.updates

    def train(self) -> Iterator[Point]:
        """Yields after every compiled call; stop iterating to stop training."""
        while not self.is_done:
            yield self._advance()

    def _run(self, stage: Stage, indices: np.ndarray, rates: np.ndarray) -> tuple[Learner, Report]:
        return run_updates(
            self.learner,
            self.episodes_of(stage.patterns),
            stage.episodes,
            self.metric,
            self.settings,
            self.key,
            jnp.asarray(indices),
            jnp.asarray(rates, jnp.float32),
        )

    def _compile_ahead(self, indices: np.ndarray, rates: np.ndarray) -> None:
        """Compile all later stages beside this one, by running each once for nothing; a CPU has no cores to spare."""
        later = self.settings.stages[self.progress.stage + 1 :]

        def run_each() -> None:
            for stage in later:
                self._run(stage, indices, rates)

        if jax.default_backend() != "cpu":
            threading.Thread(target=run_each, daemon=True).start()

    def _advance(self) -> Point:
        began = time.perf_counter()
        settings, before = self.settings, self.progress
        stage = settings.stages[before.stage]
        count = min(self.call, settings.updates - before.update)
        indices = np.arange(before.update, before.update + count)
        rates = before.rate_scale * np.array([settings.rate_at(int(index)) for index in indices])
        learner, report = jax.block_until_ready(self._run(stage, indices, rates))
        is_new = stage not in self.compiled
        if not self.compiled:
            self._compile_ahead(indices, rates)
        self.compiled.add(stage)
        values = {name: float(np.mean(value)) for name, value in report._asdict().items()}
        dropped = round(values.pop("dropped") * count)
        point: Point = {"update": before.update + count, "patterns": stage.patterns, "rate": float(rates[-1])}
        point |= values | {"dropped": dropped}
        is_off = before.is_off(count, values["error"], settings)
        if is_off:
            point["event"] = self._roll_back(count)
        else:
            self.learner = learner
            self.progress = before.after(count, values["error"], dropped, settings)
            if self.progress.stage > before.stage:
                point["event"] = f"on to {settings.stages[self.progress.stage].patterns} patterns"
        spent, clock = time.perf_counter() - began, "compile_seconds" if is_new else "seconds"
        self.progress = replace(self.progress, **{clock: getattr(self.progress, clock) + spent})
        if self.is_done or (self.progress.update % settings.snapshot == 0 and not is_off):
            self._snapshot()
            point["snapshot"] = True
        return point | {"seconds": self.progress.seconds, "compile_seconds": self.progress.compile_seconds}

    def _roll_back(self, updates: int) -> str:
        self.progress = self.progress.rolled_back(updates)
        target = self.snapshots[0]
        self.learner, self.snapshots = target.learner, [target]
        return (
            f"rolled back to update {target.progress.update}, learning rate × {self.progress.rate_scale:.2f} "
            f"({self.progress.roll_backs} so far)"
        )

    def _snapshot(self) -> None:
        self.progress = replace(self.progress, tries=0)
        taken = Snapshot(self.learner, self.progress)
        self.snapshots = [*self.snapshots[-1:], taken]
        self.save()
