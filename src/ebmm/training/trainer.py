"""The training engine: calls the compiled updates, watches over them, and keeps what is needed to go back or go on."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from ..core.model import EBMM
from ..data.episodes import Episodes
from ..interface import AbstractMemoryModel
from ..loops import Loop
from .checkpoint import Checkpoints, Snapshot
from .parallel import check_divides, everywhere, is_writer
from .progress import Progress
from .settings import Settings, Stage
from .traced import TracedUpdates
from .update import Learner, Report, run_updates

COUNTS = ("dropped", "stepped_back", "skipped")
"""What is told as a sum over the updates of a call, and not as a mean."""
MANY = 0.05
"""Of the episodes: to drop more is worth telling, as the model then learns from the easy ones."""
Point = dict[str, Any]
"""What is told of a call: numbers by name, `event` where something happened, `snapshot` where one was taken."""


def updates_in_a_call() -> int:
    """On a CPU XLA runs the body of an outer loop on fewer threads, and one update a call is faster."""
    return 1 if jax.default_backend() == "cpu" else 25


def in_training(model: AbstractMemoryModel, settings: Settings) -> AbstractMemoryModel:
    """The same model, its loops differentiated as the settings say."""
    if not isinstance(model, EBMM):
        return model
    unroll = settings.unroll or model.loop.unroll
    return replace(model, loop=Loop(unroll, keep=settings.keep, cotangent_limit=settings.cotangent_limit))


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
    call: int
    """Updates in one compiled call."""
    checkpoints: Checkpoints | None = None
    mesh: Mesh | None = None
    traced: TracedUpdates | None = None
    """Updates that are not traced anew at every start; for one device."""
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
        mesh: Mesh | None = None,
        traced: TracedUpdates | None = None,
    ) -> "Trainer":
        """A run from its beginning, its episodes split over the mesh if there is one."""
        call = min(updates_in_a_call() if call is None else call, settings.snapshot)
        if settings.snapshot % call:
            raise ValueError(f"snapshot: got {settings.snapshot}; expected a multiple of {call} updates a call.")
        for stage in settings.stages:
            check_divides(mesh, stage.episodes)
        learner, progress = everywhere(Learner.of(in_training(model, settings), settings), mesh), Progress()
        snapshots = [Snapshot(learner, progress)]
        key = everywhere(key, mesh)
        return cls(settings, episodes_of, metric, key, learner, progress, snapshots, call, checkpoints, mesh, traced)

    def resume(self) -> None:
        """Go on from the newest checkpoint."""
        assert self.checkpoints is not None
        current, snapshots = self.checkpoints.load(self.learner)
        self.snapshots = [replace(each, learner=everywhere(each.learner, self.mesh)) for each in snapshots]
        self.learner, self.progress = everywhere(current.learner, self.mesh), current.progress

    def save(self) -> None:
        """Write the state as it is now to the disk. To be called at every point with a snapshot."""
        if self.checkpoints is not None and is_writer():
            self.checkpoints.save(Snapshot(self.learner, self.progress), self.snapshots)

    @property
    def is_done(self) -> bool:
        return self.settings.share_done(self.progress.update, self.progress.seconds) >= 1

    def train(self) -> Iterator[Point]:
        """Yields after every compiled call; stop iterating to stop training."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="compile ahead")
        ahead: dict[Stage, Future[Any]] | None = None
        try:
            while not self.is_done:
                if ahead and self.stage in ahead:
                    ahead.pop(self.stage).exception()  # waits; if it failed, this thread will meet the same error
                point = self._advance()
                if ahead is None:  # only now, so that the first update does not wait for the others' tracing
                    ahead = {} if jax.default_backend() == "cpu" else self._compile_ahead(thread)
                yield point
        finally:
            thread.shutdown(wait=False, cancel_futures=True)  # Python waits for what is being compiled before it ends

    @property
    def stage(self) -> Stage:
        return self.settings.stages[self.progress.stage]

    def _compile_ahead(self, thread: ThreadPoolExecutor) -> dict[Stage, Future[Any]]:
        """Compile all later stages beside this one, by running each once for nothing; a CPU has no cores to spare."""
        learner, indices, rates = self.learner, np.arange(self.call), np.zeros(self.call)
        later = self.settings.stages[self.progress.stage + 1 :]
        return {stage: thread.submit(self._run, learner, stage, indices, rates) for stage in later}

    def _run(self, learner: Learner, stage: Stage, indices: np.ndarray, rates: np.ndarray) -> tuple[Learner, Report]:
        given = (
            learner,
            self.episodes_of(stage.patterns),
            stage.episodes,
            self.metric,
            self.settings,
            self.key,
            indices.astype(np.int32),
            rates.astype(np.float32),
        )
        if self.traced is not None and self.mesh is None:
            return jax.block_until_ready(self.traced(*given))
        return jax.block_until_ready(run_updates(*given, self.mesh))

    def _advance(self) -> Point:
        began = time.perf_counter()
        settings, before, stage = self.settings, self.progress, self.stage
        count = self.call if settings.minutes is not None else min(self.call, settings.updates - before.update)
        indices = np.arange(before.update, before.update + count)
        rates = before.rate_scale * np.array([settings.rate_at(int(index), before.seconds) for index in indices])
        learner, report = self._run(self.learner, stage, indices, rates)
        values = {name: _mean(value) for name, value in report._asdict().items()}
        counts = {name: round(values.pop(name) * count) for name in COUNTS}
        point: Point = {"update": before.update + count, "patterns": stage.patterns, "rate": float(rates[-1])}
        point |= values | counts
        is_off = before.is_off(count, values["error"], settings)
        if is_off:
            point["event"] = self._roll_back(count)
        else:
            self.learner = learner
            self.progress = before.after(count, values["error"], counts["dropped"], settings)
            if self.progress.stage > before.stage:
                point["event"] = f"on to {self.stage.patterns} patterns"
                self.learner = self._fitted(learner, before.stage)
        spent, clock = time.perf_counter() - began, "seconds" if stage in self.compiled else "compile_seconds"
        self.compiled.add(stage)
        self.progress = replace(self.progress, **{clock: getattr(self.progress, clock) + spent})
        if self.is_done or (self.progress.update % settings.snapshot == 0 and not is_off):
            lost = self.progress.dropped_since(self.snapshots[-1].progress, stage.episodes)
            if lost > MANY:
                told = f"{lost:.0%} of the episodes since the last snapshot had gradients that are not finite and were "
                point.setdefault("event", f"{told}dropped; the error is that of the others")
            self.progress = replace(self.progress, tries=0)
            self.snapshots = [*self.snapshots[-1:], Snapshot(self.learner, self.progress)]
            point["snapshot"] = True
        return point | {"seconds": self.progress.seconds, "compile_seconds": self.progress.compile_seconds}

    def _fitted(self, learner: Learner, stage: int) -> Learner:
        """A learner of that stage, for the stage that is now."""
        before, now = self.settings.stages[stage].patterns, self.stage.patterns
        return learner.to_learn_with(now, before) if self.settings.rescale and now != before else learner

    def _roll_back(self, updates: int) -> str:
        target = self.snapshots[0]
        self.progress = self.progress.rolled_back(updates, target.progress)
        self.learner, self.snapshots = self._fitted(target.learner, target.progress.stage), [target]
        return (
            f"rolled back to update {target.progress.update}, learning rate × {self.progress.rate_scale:.2f} "
            f"({self.progress.roll_backs} so far)"
        )


def _mean(values: Any) -> float:
    """Of those that are finite; NaN where none is."""
    array = np.asarray(values)
    finite = array[np.isfinite(array)]
    return float(finite.mean()) if finite.size else float("nan")
