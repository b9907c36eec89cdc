"""Random strings: wrong bits against the number of strings, at equal memory."""

from functools import partial

from ..baselines import Hopfield, ModernHopfield
from ..interface import AbstractMemoryModel
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
PRINTED = published("binary")
BINARY = PaperTable(
    name="binary",
    heading="Binary strings",
    title=f"Wrong bits of {BITS}",
    about=(
        f"Random strings of {BITS} bits are stored. Half of the bits of each, at random places, are drawn anew; "
        "the reader is told which half is sound and may clamp it. All bits count. The memory holds 8,256 floats, "
        "but for the modern Hopfield network, which keeps the strings themselves."
    ),
    columns=tuple(Column(str(count), f"{count} patterns", "strings", count) for count in (16, 32, 48, 64, 96)),
    systems=(*RULED, *TRAINED, System("modern-hopfield", "modern Hopfield", build=modern_hopfield)),
    chance=BITS / 4,  # half of the bits are drawn anew, and half of those differ
    source=PRINTED.source,
    published=PRINTED.published,
)
