"""Rows of bundled models that are written with rehearsal: the same memory, and more work for a write."""

from collections.abc import Callable
from functools import partial

from ..evaluation.protocols import PROTOCOLS
from ..interface import AbstractMemoryModel
from ..memory import Memory
from ..rehearsal import Rehearsal, with_rehearsal
from .tables import System

BATCHES = 20
"""A write takes up to a minute on a CPU. Cells that were measured over more are kept."""


def rehearsed_row(
    name: str, label: str, *, bundled: str, on: str, steps: Callable[[int], int], columns: tuple[str, ...] = ()
) -> System:
    """A bundled model in a table, practised in so many steps for a number of patterns, under a protocol's damage."""
    build = partial(_rehearsed, bundled=bundled, on=on, steps=steps)
    return System(name, label, build=build, bundled=bundled, batches=BATCHES, columns=columns)


def _rehearsed(patterns: int, *, bundled: str, on: str, steps: Callable[[int], int]) -> AbstractMemoryModel:
    memory, protocol = Memory.from_pretrained(bundled), PROTOCOLS[on]
    rehearsal = Rehearsal(protocol.damage, steps(patterns), protocol.reveal)
    return with_rehearsal(memory.model_for(patterns), rehearsal)
