"""Checkpoints: files that hold a learner and where its run stood, each written whole or not at all."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ..files import fill, load_tensors, named_arrays, save_tensors
from .progress import Progress
from .update import Learner

FORMAT = "ebmm-checkpoint"


@dataclass(frozen=True)
class Snapshot:
    """A learner to return to, and the progress when it was taken."""

    learner: Learner
    progress: Progress

    @property
    def name(self) -> str:
        return f"update-{self.progress.update:09d}.safetensors"


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run, which bears a fingerprint that tells it from others."""

    folder: Path
    run: str

    def save(self, current: Snapshot, snapshots: list[Snapshot]) -> None:
        """Keep this state and the snapshots that a roll-back could go to; remove all others.

        The snapshots are on disk already, each from when it was current, so that a kill at any moment leaves a newest
        checkpoint with all that it names.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        names = [snapshot.name for snapshot in snapshots]
        about = {"progress": json.dumps(asdict(current.progress)), "snapshots": json.dumps(names)}
        tensors = named_arrays(current.learner)
        save_tensors(self.folder / current.name, tensors, format=FORMAT, run=self.run, **about)
        for path in (*self.folder.glob("update-*.safetensors"), *self.folder.glob(".*.tmp")):  # also what a kill left
            if path.name not in (*names, current.name):
                path.unlink()

    def newest(self) -> Path | None:
        return max(self.folder.glob("update-*.safetensors"), default=None)

    def load(self, like: Learner) -> tuple[Snapshot, list[Snapshot]]:
        """The newest state, and the snapshots that it could go back to."""
        newest = self.newest()
        if newest is None:
            raise FileNotFoundError(f"{self.folder} holds no checkpoint to resume from.")
        current, names = self._read(newest, like)
        snapshots = [current if name == newest.name else self._read(self.folder / name, like)[0] for name in names]
        return current, snapshots

    def _read(self, path: Path, like: Learner) -> tuple[Snapshot, list[str]]:
        tensors, about = load_tensors(path, format=FORMAT)
        if about.get("run") != self.run:
            raise ValueError(
                f"{path} belongs to another experiment or seed; resume it with the one it was started with."
            )
        values = json.loads(about["progress"])
        progress = Progress(**{field.name: values[field.name] for field in fields(Progress)})
        return Snapshot(fill(like, tensors, path), progress), json.loads(about["snapshots"])
