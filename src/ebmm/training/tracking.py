"""A run's numbers for TensorBoard, when asked; `metrics.jsonl` has them in any case."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .trainer import Point

SCALARS = ("loss", "error", "norm", "rate", "dropped", "stepped_back", "skipped", "patterns", "held_out")


def check_tensorboard() -> None:
    """To be called before a run is begun, so that none is left behind by a missing package."""
    if find_spec("tensorboardX") is None:
        raise ValueError("--tensorboard needs a package that ebmm itself does not: pip install tensorboardX.")


class Board:
    """Event files in a folder of the run. What a killed run had written past its checkpoint is hidden."""

    def __init__(self, folder: Path, *, from_update: int):
        from tensorboardX import SummaryWriter  # pyright: ignore[reportMissingImports]

        self._writer: Any = SummaryWriter(str(folder), purge_step=from_update)

    def show(self, point: Point) -> None:
        for name in SCALARS:
            if point.get(name) is not None:
                self._writer.add_scalar(name, point[name], point["update"])
        if "event" in point:
            self._writer.add_text("event", point["event"], point["update"])

    def close(self) -> None:
        self._writer.close()
