"""Omniglot drawings, in convolutional memory and in the systems that the paper compares with it."""

from typing import Any

from ..initial import InitialRates
from ..training.settings import Settings, Stage
from .experiment import Experiment

SALT = "omniglot-salt"


def _other(
    name: str,
    system: str,
    *,
    stage: Stage,
    on: str = "omniglot",
    sizes: dict[str, Any] | None = None,
    about: str,
    roll_back: float | None = 1.4,
) -> Experiment:
    """Another system on augmented drawings, like EBMM; updates for some five minutes on one H200."""
    return Experiment(
        name=f"omniglot-{name}",
        about=about,
        network=system,
        on=on,
        sizes=sizes or {},
        settings=Settings(
            updates=stage.updates,
            stages=(stage,),
            optimizer="muon",  # as EBMM's own: no rival with another optimizer
            learning_rate=3e-3,
            group=stage.episodes,
            augment=True,
            patience=None,
            roll_back=roll_back,
            snapshot=1000,
            triton=False,
        ),
        expected="--within 13 is enough beside seven others on one H200",
        held_out=4,
    )


def _drawings(name: str, about: str, *, network: str, expected: str) -> Experiment:
    """64 drawings in 9,232 floats of one of the convolutional networks."""
    return Experiment(
        name=name,
        about=about,
        network=network,
        on="omniglot",
        sizes={"memory_width": 8},
        settings=Settings(
            updates=40_000,
            # What is the same for any number of drawings, how to draw a pixel, is learned fastest with few of them.
            stages=(
                Stage(4, 16, 2_000),
                Stage(8, 8, 3_000),
                Stage(16, 8, 2_500),
                Stage(32, 4, 3_500),
                Stage(64, 4, 40_000),
            ),
            optimizer="muon",
            learning_rate=3e-3,
            copies=4,
            group=4,
            augment=True,
            snapshot=1000,
            triton=False,
        ),
        expected=expected,
        held_out=4,
    )


_BOTH = (("", "omniglot", "a 16×16 block"), ("-salt", SALT, "salt and pepper"))
OMNIGLOT = (
    _drawings(
        "omniglot-conv-9k",
        "64 drawings in 9,232 floats of convolutional memory",
        network="ResNetConv",
        expected="not measured from a fresh model; the bundled one took 32 minutes on one H200, 17.5 of them so",
    ),
    _drawings(
        "omniglot-mixed-conv-9k",
        "the same with the memory between learned matrices",
        network="ResNetMixed",
        expected="not measured yet",
    ),
    Experiment(
        name="omniglot-mixed-rnn-9k",
        about="64 drawings in 9,216 floats of a small network between learned matrices",
        network="MixedImageRNN",
        on="omniglot",
        settings=Settings(
            updates=15_000,
            stages=(Stage(8, 2, 3_000), Stage(16, 2, 3_000), Stage(32, 1, 3_000), Stage(64, 1, 15_000)),
            learning_rate=1e-3,
            copies=2,
            augment=True,
            snapshot=250,
        ),
        expected="8, 16 and 32 drawings in 28 minutes on one CPU core; 64 learn better with --write-steps 10",
        held_out=4,
    ),
    Experiment(
        name="omniglot-reconstruction-9k",
        about="64 drawings in 9,216 floats of an auto-encoder whose reconstruction error is the energy",
        network="ImageReconstruction",
        on="omniglot",
        write_steps=10,  # a step costs little without the gradient term
        gradient_term=False,
        settings=Settings(
            updates=5_000,
            stages=(Stage(8, 2, 700), Stage(16, 2, 700), Stage(32, 1, 700), Stage(64, 1, 5_000)),
            optimizer="muon",  # ahead of AdamW at 2e-3 from 16 drawings on
            learning_rate=3e-3,
            copies=2,
            augment=True,
            warm_up=50,
            snapshot=250,
            patience=None,
            initial=InitialRates(read=0.5, momentum=0.1, decay=0.9),  # a first step of 0.7 towards what is redrawn
        ),
        expected="14.5 wrong pixels held out after 55 minutes on one CPU core",
        held_out=4,
    ),
    *(
        _other(
            f"memory-network{ending}",
            "MemoryNetwork",
            on=on,
            stage=Stage(64, 2, 30_000),
            sizes={"width": 144},
            about=f"64 drawings in 64 slots of 144 floats, {damage}",
        )
        for ending, on, damage in _BOTH
    ),
    *(
        _other(
            f"mann{ending}",
            "MANN",
            on=on,
            stage=Stage(64, 2, 8_000),
            roll_back=3.0,  # its error may double without a collapse; going back for that cost a third of a run
            sizes={"width": 144},
            about=f"64 drawings in 9,216 floats of a MANN, {damage}",
        )
        for ending, on, damage in _BOTH
    ),
    *(
        _other(
            f"kanerva-{patterns}",
            "KanervaMachine",
            stage=Stage(patterns, 128 // patterns, updates),
            roll_back=None,  # as for the VAE
            sizes={"slots": 43, "divergence_weight": 0.1},
            about=f"{patterns} drawings in 11,954 floats of a Kanerva machine",
        )
        for patterns, updates in ((4, 20_000), (64, 8_000))
    ),
    *(
        _other(
            f"autoencoder{ending}",
            "AutoEncoder",
            on=on,
            stage=Stage(64, 2, 30_000),
            about=f"a denoising auto-encoder of 256 units, {damage}",
        )
        for ending, on, damage in _BOTH
    ),
    _other(
        "vae",
        "VAE",
        stage=Stage(64, 2, 30_000),
        about="a variational auto-encoder with 256 latents",
        roll_back=None,  # it never sees damage: its error on damaged drawings says nothing about its health
    ),
)
