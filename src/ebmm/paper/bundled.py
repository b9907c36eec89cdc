"""Rows of the bundled models as `Memory` writes them, which is more than the paper's five steps."""

from collections.abc import Callable
from functools import partial

from ..evaluation.protocols import PROTOCOLS
from ..interface import AbstractMemoryModel
from ..memory import Memory
from ..rehearsal import Rehearsal, with_rehearsal
from .tables import System

BATCHES = 20
"""Of a rehearsed memory: a write takes up to a minute on a CPU. Cells that were measured over more are kept."""
CHECKED_BATCHES = 200
"""A write and its check take up to some seconds on a CPU."""


def checked_row(
    name: str, label: str, *, bundled: str, batches: int = CHECKED_BATCHES, columns: tuple[str, ...] = ()
) -> System:
    """A bundled model in a table, which checks what it has written where that is not the number it has learned."""
    build = partial(_checked, bundled=bundled)
    return System(name, label, build=build, bundled=bundled, batches=batches, columns=columns)


def rehearsed_row(
    name: str, label: str, *, bundled: str, on: str, steps: Callable[[int], int], columns: tuple[str, ...] = ()
) -> System:
    """A bundled model in a table, practised in so many steps for a number of patterns, under a protocol's damage."""
    build = partial(_rehearsed, bundled=bundled, on=on, steps=steps)
    return System(name, label, build=build, bundled=bundled, batches=BATCHES, columns=columns)


def _checked(patterns: int, *, bundled: str) -> AbstractMemoryModel:
    return Memory.from_pretrained(bundled).model_for(patterns)


def _rehearsed(patterns: int, *, bundled: str, on: str, steps: Callable[[int], int]) -> AbstractMemoryModel:
    memory, protocol = Memory.from_pretrained(bundled), PROTOCOLS[on]
    rehearsal = Rehearsal(protocol.damage, steps(patterns), protocol.reveal)
    return with_rehearsal(memory.model_for(patterns, careful=False), rehearsal)  # so that a row shows one thing alone
