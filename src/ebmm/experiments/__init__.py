"""Every experiment by name: what is trained, on what, and how. Data only; the code is elsewhere."""

from dataclasses import dataclass, field
from typing import Any

from ..training.settings import Settings, Stage, paper


@dataclass(frozen=True)
class Experiment:
    """A model, the episodes that it learns from, and how it learns."""

    name: str
    about: str
    network: str
    """One of the paper's, by its class."""
    on: str
    """One of the protocols."""
    settings: Settings
    expected: str
    """How long it took, and on what."""
    sizes: dict[str, Any] = field(default_factory=dict)
    """Arguments of the network, where they are not the paper's."""
    bits: int = 128
    """Of a string."""
    steps: int = 5
    """Of writing and of reading."""
    held_out: int = 0
    """Test batches to watch while training; nothing is decided from them."""
    beside: tuple[str, ...] = ()
    """Rules of the Hopfield network to measure beside the model in the end, at the same memory size."""


def curriculum(last: int, *, total: int, updates: int, first: int = 4) -> tuple[Stage, ...]:
    """From few patterns to many, doubling, with the same number of patterns in every update."""
    counts = []
    while first < last:
        counts.append(first)
        first *= 2
    return tuple(Stage(count, max(total // count, 1), updates) for count in (*counts, last))


HOPFIELD_RULES = ("hebb", "storkey", "pseudo-inverse")


def _strings(patterns: int, updates: int) -> Experiment:
    return Experiment(
        name=f"binary-{patterns}",
        about=f"{patterns} strings of 128 bits in 8,256 floats",
        network="GatedRNN",
        on="strings",
        settings=Settings(
            updates=updates,
            stages=(Stage(patterns, 8, updates),),
            learning_rate=3e-4,
            group=2,
            snapshot=500,
            patience=None,
        ),
        expected="not measured yet",
        beside=HOPFIELD_RULES,
    )


_ALL = (
    Experiment(
        name="debug",
        about="a few seconds of training on any machine",
        network="GatedRNN",
        on="strings",
        sizes={"memory_width": 8, "hidden": 16, "hops": 2},
        bits=16,
        steps=2,
        settings=Settings(
            updates=400,
            stages=(Stage(2, 8, 200), Stage(4, 8, 400)),
            learning_rate=1e-2,
            warm_up=10,
            snapshot=50,
            patience=None,
            average=0.9,
        ),
        expected="half a minute on two CPU cores, most of it compiling",
        held_out=2,
    ),
    Experiment(
        name="binary-small",
        about="8 strings of 32 bits in 528 floats: a small RNN against the Hopfield rules",
        network="GatedRNN",
        on="strings",
        sizes={"memory_width": 16, "hidden": 64},
        bits=32,
        settings=Settings(
            updates=11_000, stages=(Stage(8, 4, 11_000),), learning_rate=3e-3, patience=None, snapshot=500
        ),
        expected="5 minutes on two CPU cores",
        beside=HOPFIELD_RULES,
    ),
    *(
        _strings(patterns, updates)
        for patterns, updates in ((16, 32_000), (32, 32_000), (48, 32_000), (64, 32_000), (96, 32_000))
    ),
    Experiment(
        name="omniglot-conv-9k",
        about="64 Omniglot drawings in 9,232 floats of convolutional memory",
        network="ResNetConv",
        on="omniglot",
        sizes={"memory_width": 8},
        settings=Settings(
            updates=22_000, stages=curriculum(64, total=64, updates=2500), learning_rate=1e-3, augment=True
        ),
        expected="16 minutes on one H200, 5 more to compile and test",
        held_out=4,
    ),
    Experiment(
        name="binary-64-paper",
        about="the same model with the paper's settings, for two million updates",
        network="GatedRNN",
        on="strings",
        settings=paper(updates=2_000_000, stage=Stage(64, 1, 2_000_000)),
        expected="not measured",
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
