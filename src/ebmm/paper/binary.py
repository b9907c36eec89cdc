"""Random strings: wrong bits against the number of strings, at equal memory."""

from functools import partial

from ..baselines import Hopfield, ModernHopfield
from ..interface import AbstractMemoryModel
from .bundled import checked_row, rehearsed_row
from .tables import Column, PaperTable, System, published

BITS = 128
RULES = {"hebb": "Hebb", "storkey": "Storkey", "pseudo-inverse": "pseudo-inverse"}


def hopfield(patterns: int, *, rule: str, order: str) -> AbstractMemoryModel:
    return Hopfield(pattern_shape=(BITS,), rule=rule, order=order)


def modern_hopfield(patterns: int) -> AbstractMemoryModel:
    return ModernHopfield((BITS,), patterns=patterns, domain=(-1.0, 1.0))


RULED = tuple(
    System(
        f"hopfield-{rule}-{order}",
        f"Hopfield, {label}, {order}",
        build=partial(hopfield, rule=rule, order=order),
        published=f"hopfield-{rule}",
        batches=100,
    )
    for rule, label in RULES.items()
    for order in ("asynchronous", "synchronous")
)
TRAINED = tuple(
    System(name, label, experiment=f"binary-{{patterns}}{ending}", published=name)
    for name, label, ending in (
        ("differentiable-plasticity", "differentiable plasticity", "-plasticity"),
        ("mann", "MANN", "-mann"),
        ("lstm", "LSTM", "-lstm"),
        ("memory-network", "Memory Network", "-memory-network"),
        ("ebmm-rnn", "EBMM, gated RNN", ""),
    )
)
MIXED = (
    checked_row(
        "ebmm-mixed-checked",
        "EBMM, mixed RNN of 64, checked",
        bundled="binary-mixed",
        batches=1000,
        columns=("16", "32", "48"),
    ),
    System("ebmm-mixed", "EBMM, mixed RNN", experiment="binary-{patterns}-mixed", columns=("64", "96")),
)
RECONSTRUCTION = (
    checked_row(
        "ebmm-reconstruction-checked",
        "EBMM, reconstruction of 64, checked",
        bundled="binary-reconstruction",
        batches=1000,
        columns=("16", "32", "48"),
    ),
    System(
        "ebmm-reconstruction",
        "EBMM, reconstruction",
        experiment="binary-{patterns}-reconstruction",
        columns=("64",),
    ),
)
CHECKED = checked_row(
    "ebmm-rnn-checked",
    "EBMM, gated RNN of 64, checked",
    bundled="binary-rnn",
    columns=("16", "32", "48", "64"),
)
REHEARSED = rehearsed_row(
    "ebmm-rnn-rehearsed",
    "EBMM, gated RNN, rehearsed",
    bundled="binary-rnn",
    on="strings",
    steps=lambda patterns: 800 if patterns <= 64 else 2400,
)
PRINTED = published("binary")
BINARY = PaperTable(
    name="binary",
    heading="Binary strings",
    title=f"Wrong bits of {BITS}",
    about=(
        f"Random strings of {BITS} bits are stored. Half of the bits of each, at random places, are drawn anew; "
        "the reader is told which half is sound and may clamp it. All bits count. The memory holds 8,256 floats, "
        "but for the modern Hopfield network, which keeps the strings themselves. "
        "Mixed: another network than the paper's, with as much memory, which stands between learned matrices "
        "(`ebmm.energies.MixedRNN`); eight read steps in place of five, and with 96 strings twelve, and ten write "
        "steps in place of five; trained on one CPU core. "
        "Reconstruction: a third network, as large a memory in the middle of an auto-encoder, whose error is the "
        "energy (`ebmm.energies.StringReconstruction`); fifteen write steps without the gradient term, and ten read "
        "steps; trained on one CPU core. "
        "Checked: one model, the bundled one of 64 strings, for up to 64. With 64 it is written as it has learned; "
        "with fewer it reads the strings from themselves after the write, and writes again with longer or shorter "
        "steps, ten lengths at most, until that succeeds. "
        "Rehearsed: the gated RNN of 64 strings, whose written layers are moved by 800 more steps (2,400 "
        "with 96 strings), each on the error of reading a sixteenth of the strings from copies that are damaged in the "
        "same way. The memory and the five read steps are the same, a write takes up to a minute on a CPU, and the "
        "paper has no such row."
    ),
    columns=tuple(Column(str(count), f"{count} patterns", "strings", count) for count in (16, 32, 48, 64, 96)),
    systems=(
        *RULED,
        *TRAINED,
        *MIXED,
        *RECONSTRUCTION,
        CHECKED,
        REHEARSED,
        System("modern-hopfield", "modern Hopfield", build=modern_hopfield),
    ),
    chance=BITS / 4,  # half of the bits are drawn anew, and half of those differ
    source=PRINTED.source,
    published=PRINTED.published,
)
