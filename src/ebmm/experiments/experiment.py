"""What an experiment is."""

from dataclasses import dataclass, field
from typing import Any

from ..training.settings import Settings


@dataclass(frozen=True)
class Experiment:
    """A model, the episodes that it learns from, and how it learns."""

    name: str
    about: str
    network: str
    """One of the paper's energies, or another system (`baselines.SYSTEMS`), by its class."""
    on: str
    """One of the protocols."""
    settings: Settings
    expected: str
    """How long it took, and on what."""
    sizes: dict[str, Any] = field(default_factory=dict)
    """Arguments of the network or system, where they are not the default."""
    bits: int = 128
    """Of a string."""
    write_steps: int = 5
    read_steps: int = 5
    gradient_term: bool = True
    """Whether ‖∇ₓE‖² is a part of an energy's writing loss."""
    start: str | None = None
    """A bundled model to start from, in place of a fresh one."""
    held_out: int = 0
    """Test batches to watch while training; nothing is decided from them."""
    beside: tuple[str, ...] = ()
    """Rules of the Hopfield network to measure beside the model in the end, at the same memory size."""
