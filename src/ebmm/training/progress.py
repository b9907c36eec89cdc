"""Where a run stands, and what is decided from its errors: to move on, to roll back, to give up."""

import math
from dataclasses import dataclass, replace

from .settings import Settings

SMOOTHING = 200  # updates that the average error looks back on
RECENT = 25  # updates that the recent error looks back on: a single one is too noisy to judge
TRUST = 200  # updates of a stage before its average is believed
FALL = 0.98  # a fall to less than this counts as progress
SLOWER = 0.8  # of the learning rate after a roll-back
TRIES = 6  # roll-backs without a new snapshot before giving up


class Diverged(RuntimeError):
    """Rolling back no longer helps."""


@dataclass(frozen=True)
class Progress:
    """The host's side of a run's state; plain numbers, so that a checkpoint can hold it."""

    update: int = 0
    stage: int = 0
    stage_started: int = 0
    smoothed: float | None = None
    recent: float | None = None
    best: float | None = None
    """The lowest average error of the stage that counted as progress, and when it was reached."""
    best_at: int = 0
    rate_scale: float = 1.0
    roll_backs: int = 0
    tries: int = 0
    """Roll-backs since the last snapshot."""
    dropped: int = 0
    seconds: float = 0.0
    """Of training."""
    compile_seconds: float = 0.0
    """Of calls that had to be compiled first."""

    def is_off(self, updates: int, error: float, settings: Settings) -> bool:
        """Whether these updates take the recent error so far from its average that the model counts as broken."""
        if settings.roll_back is None:
            return False
        if not math.isfinite(error):
            return True
        if self.smoothed is None or self.update - self.stage_started < TRUST:
            return False
        recent = _moved(self.recent, error, updates, RECENT)
        return recent > settings.roll_back * self.smoothed + 0.05  # an error of zero has no ratio

    def after(self, updates: int, error: float, dropped: int, settings: Settings) -> "Progress":
        """With these updates accepted, and moved to the next stage if this one is over."""
        update = self.update + updates
        smoothed = _moved(self.smoothed, error, updates, SMOOTHING)
        best, best_at = self.best, self.best_at
        if best is None or smoothed < FALL * best:
            best, best_at = smoothed, update
        moved = replace(
            self,
            update=update,
            smoothed=smoothed,
            recent=_moved(self.recent, error, updates, RECENT),
            best=best,
            best_at=best_at,
            dropped=self.dropped + dropped,
        )
        return moved.next_stage() if moved.stage_is_over(settings) else moved

    def stage_is_over(self, settings: Settings) -> bool:
        if self.stage + 1 == len(settings.stages):
            return False
        stalled = settings.patience is not None and self.update - self.best_at >= settings.patience
        return stalled or self.update - self.stage_started >= settings.stages[self.stage].updates

    def next_stage(self) -> "Progress":
        return replace(
            self,
            stage=self.stage + 1,
            stage_started=self.update,
            smoothed=None,
            recent=None,
            best=None,
            best_at=self.update,
        )

    def rolled_back(self, updates: int) -> "Progress":
        """The updates are lost, the count goes on, and with it the random batches."""
        if self.tries + 1 > TRIES:
            raise Diverged(
                f"The error left its average {TRIES + 1} times in a row, the last time at update {self.update}, with "
                f"the learning rate lowered each time, down to {self.rate_scale:.3f} of its first value. Start again "
                "with a lower one or another seed; the last good snapshot is kept."
            )
        update = self.update + updates
        return replace(
            self,
            update=update,
            recent=self.smoothed,
            rate_scale=self.rate_scale * SLOWER,
            roll_backs=self.roll_backs + 1,
            tries=self.tries + 1,
            best_at=update,
        )


def _moved(average: float | None, value: float, updates: int, horizon: int) -> float:
    """An average that looks back on `horizon` updates, after some with this value."""
    kept = math.exp(-updates / horizon)
    return value if average is None else kept * average + (1 - kept) * value
