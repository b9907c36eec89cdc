"""How a model is trained, as data. Every ingredient is a field, and can be switched off."""

from dataclasses import dataclass
from typing import Literal

from ..initial import CALIBRATED, PAPER, InitialRates
from ..loops import Keep as Keep

Optimizer = Literal["adamw", "muon", "soap"]
Precision = Literal["float32", "float16"]


@dataclass(frozen=True)
class Stage:
    """A part of the curriculum: how many patterns an episode stores, and how many episodes an update averages."""

    patterns: int
    episodes: int
    updates: int
    """At most; the last stage goes on to the end of the run."""

    def __post_init__(self):
        if min(self.patterns, self.episodes, self.updates) < 1:
            raise ValueError(f"got {self}; expected at least one pattern, one episode and one update.")


@dataclass(frozen=True)
class Settings:
    """The `fast` preset: what was found to train quickly and without a collapse."""

    updates: int
    stages: tuple[Stage, ...]
    minutes: float | None = None
    """Of training, in place of `updates`: the learning rate is planned by the clock, for a machine of unknown speed."""
    optimizer: Optimizer = "adamw"
    """Muon takes steps of one size in all directions of a weight matrix, SOAP is Adam in the directions that its
    gradients are made of; what is no matrix is left to Adam.
    """
    learning_rate: float = 3e-4
    step_size_factor: float = 3.0
    """The learned step sizes of writing and reading move so many times faster than the weights."""
    weight_decay: float = 1e-6
    """Of what multiplies an input, this times the learning rate is taken off with each update. Without it the weights
    grow by the noise of their own steps.
    """
    clip: float | None = 1.0
    """Of the norm of the mean gradient."""
    episode_clip: float | None = 2.0
    """Of each episode's gradient, in median norms of the update's episodes."""
    copies: int = 1
    """Damaged copies of each pattern that an episode reads: the noise of a gradient is due to the damage more than to
    what is stored, and reading costs less than writing.
    """
    last_steps: int | None = None
    """Of the read steps, so many count in the loss, from the last on; None is all of them, as in the paper. What a
    trained model gains in its first step it loses in its last.
    """
    group: int = 1
    """So many episodes count as one for that: their common gradient is faster than one each."""
    cotangent_limit: float | None = 1000.0
    """Of the memory's cotangent at each write step."""
    step_back: float | None = 20.0
    """Leave out an update whose gradient is so many times as long as usual, and after several in a row go back."""
    warm_up: int = 200
    decay: float = 0.5
    """Over this last share of the updates the learning rate falls to zero."""
    average: float | None = None
    """The weights to keep are a running average with this decay."""
    rescale: bool = True
    """At a change of stage, start with longer write steps for more patterns (`fewer.to_learn_with`)."""
    patience: int | None = 1000
    """A stage ends when its error has not fallen by 2 % in so many updates."""
    roll_back: float | None = 1.4
    """Go back to an earlier snapshot, with 0.8 of the learning rate, when the error is so many times its average."""
    snapshot: int = 500
    """Updates between snapshots, which are the checkpoints too."""
    augment: bool = False
    initial: InitialRates = CALIBRATED
    keep: Keep = "products"
    """What the steps of writing and reading keep for the way back; the rest is computed again."""
    unroll: bool = False
    """A copy of the code for each step of writing and reading: faster on a GPU, and longer to compile."""
    precision: Precision = "float32"
    """Of the energy's own arithmetic. Weights, gradients of weights and step sizes are in float32 at any rate."""
    triton: bool = True
    """On a GPU, let XLA try Triton's matrix products: a few per cent faster, and twice as long to compile."""

    def __post_init__(self):
        if not self.stages:
            raise ValueError("got no stages; expected at least one.")
        if (
            min(self.updates, self.snapshot, self.group, self.copies) < 1
            or self.warm_up < 0
            or not 0 <= self.decay <= 1
        ):
            raise ValueError(
                f"got {self.updates} updates, a snapshot every {self.snapshot}, groups of {self.group}, "
                f"{self.copies} copies, a warm-up of {self.warm_up} and a decay over {self.decay} of them; expected "
                "positive counts and a share."
            )
        if self.last_steps is not None and self.last_steps < 1:
            raise ValueError(f"got {self.last_steps} last read steps to count; expected at least one, or None for all.")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"got {self.minutes} minutes; expected more than 0.")

    def share_done(self, update: int, seconds: float) -> float:
        """How much of the plan is behind a run that has come so far."""
        return update / self.updates if self.minutes is None else seconds / (60 * self.minutes)

    def rate_at(self, update: int, seconds: float = 0.0) -> float:
        """The learning rate before any roll-back: a linear rise, a plateau, a linear fall."""
        rise = min(1.0, (update + 1) / (self.warm_up + 1))
        left = max(1 - self.share_done(update, seconds), 0.0)
        return self.learning_rate * rise * (min(1.0, left / self.decay) if self.decay > 0 else 1.0)


def paper(*, updates: int, stage: Stage, snapshot: int = 500) -> Settings:
    """The settings that the paper gives, and nothing else."""
    return Settings(
        updates=updates,
        stages=(stage,),
        learning_rate=5e-5,
        step_size_factor=1.0,
        weight_decay=1e-6,
        clip=0.05,
        episode_clip=None,
        cotangent_limit=None,
        step_back=None,
        warm_up=0,
        decay=0.0,
        rescale=False,
        patience=None,
        roll_back=None,
        snapshot=snapshot,
        initial=PAPER,
    )
