"""Where a run stands, and what is decided from its errors: to move on, to roll back, to give up."""

import math
from dataclasses import dataclass, replace

from .settings import Settings

SMOOTHING = 200  # updates that the average error looks back on
RECENT = 25  # updates that the recent error looks back on: a single one is too noisy to judge
TRUST = 200  # updates of a stage before its average is believed
FALL = 0.98  # a fall to less than this counts as progress
SLOWER = 0.8  # of the learning rate after a roll-back
SLACK = 0.5  # wrong values by which an error may always rise: one near zero jumps whenever a single episode fails
TRIES = 6  # roll-backs without a new snapshot before giving up


class Diverged(RuntimeError):
    """Rolling back no longer helps."""


@dataclass(frozen=True)
class Progress:
    """The host's side of a run's state; plain numbers, so that a checkpoint can hold it."""

    update: int = 0
    stage: int = 0
    stage_started: int = 0
    judged_from: int = 0
    """The update from which the averages have been gathered."""
    smoothed: float | None = None
    recent: float | None = None
    best: float | None = None
    """The lowest average error of the stage that counted as progress, and when it was reached."""
    best_at: int = 0
    lost: int = 0
    """Updates in a row without a single finite episode."""
    rate_scale: float = 1.0
    roll_backs: int = 0
    tries: int = 0
    """Roll-backs since the last snapshot."""
    dropped: int = 0
    """Episodes that were not finite, so far."""
    seconds: float = 0.0
    """Of training."""
    compile_seconds: float = 0.0
    """Of the first call of each stage, most of which is compiling."""

    def is_off(self, updates: int, error: float, settings: Settings) -> bool:
        """Whether these updates take the recent error so far from its average that the model counts as broken.

        So does a model that has had no finite episode for a while; a single such update changes nothing and is let go.
        """
        if settings.roll_back is None:
            return False
        if math.isnan(error):
            return self.lost + updates >= RECENT
        if self.smoothed is None or self.update - self.judged_from < TRUST:
            return False
        recent = _moved(self.recent, error, updates, RECENT)
        return recent > settings.roll_back * self.smoothed + SLACK

    def after(self, updates: int, error: float, dropped: int, settings: Settings) -> "Progress":
        """With these updates accepted, and moved to the next stage if this one is over."""
        moved = replace(self, update=self.update + updates, dropped=self.dropped + dropped)
        if math.isnan(error):
            moved = replace(moved, lost=self.lost + updates)
        else:
            smoothed = _moved(self.smoothed, error, updates, SMOOTHING)
            recent = _moved(self.recent, error, updates, RECENT)
            moved = replace(moved, lost=0, smoothed=smoothed, recent=recent)
            if self.best is None or smoothed < FALL * self.best:
                moved = replace(moved, best=smoothed, best_at=moved.update)
        return moved.next_stage() if moved.stage_is_over(settings) else moved

    def dropped_since(self, earlier: "Progress", episodes: int) -> float:
        """The share of the episodes since then, so many in an update, that were not finite."""
        return (self.dropped - earlier.dropped) / max((self.update - earlier.update) * episodes, 1)

    def stage_is_over(self, settings: Settings) -> bool:
        if self.stage + 1 == len(settings.stages):
            return False
        stalled = settings.patience is not None and self.update - self.best_at >= settings.patience
        return stalled or self.update - self.stage_started >= settings.stages[self.stage].updates

    def next_stage(self) -> "Progress":
        return replace(self, stage=self.stage + 1, stage_started=self.update).judged_anew()

    def judged_anew(self) -> "Progress":
        """Without averages: what comes next is not comparable with what was."""
        return replace(
            self, judged_from=self.update, smoothed=None, recent=None, best=None, best_at=self.update, lost=0
        )

    def rolled_back(self, updates: int, target: "Progress") -> "Progress":
        """The updates are lost, the count goes on, and with it the random batches.

        The older model has a higher error than the one that broke, so it is judged by the averages of its own time, or
        anew if it is of another stage.
        """
        if self.tries + 1 > TRIES:
            raise Diverged(
                f"The error left its average {TRIES + 1} times in a row, the last time at update {self.update}, with "
                f"the learning rate lowered each time, down to {self.rate_scale:.3f} of its first value. Start again "
                "with a lower one or another seed; the last good snapshot is kept."
            )
        back = replace(
            self,
            update=self.update + updates,
            rate_scale=self.rate_scale * SLOWER,
            roll_backs=self.roll_backs + 1,
            tries=self.tries + 1,
        ).judged_anew()
        if target.stage != self.stage or target.smoothed is None:
            return back
        return replace(
            back,
            judged_from=back.update - (target.update - target.judged_from),
            smoothed=target.smoothed,
            recent=target.smoothed,
            best=target.best,
        )


def _moved(average: float | None, value: float, updates: int, horizon: int) -> float:
    """An average that looks back on `horizon` updates, after some with this value."""
    kept = math.exp(-updates / horizon)
    return value if average is None else kept * average + (1 - kept) * value
