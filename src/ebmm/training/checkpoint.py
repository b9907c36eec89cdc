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
        """Keep this state and the snapshots that a roll-back could go to; remove all others."""
        self.folder.mkdir(parents=True, exist_ok=True)
        wanted = {snapshot.name: snapshot for snapshot in (*snapshots, current)}
        for name, snapshot in wanted.items():
            path = self.folder / name
            if snapshot is current or not path.exists():
                about = {
                    "run": self.run,
                    "progress": json.dumps(asdict(snapshot.progress)),
                    "snapshots": json.dumps([each.name for each in snapshots]),
                }
                save_tensors(path, named_arrays(snapshot.learner), format=FORMAT, **about)
        for path in self.folder.glob("update-*.safetensors"):
            if path.name not in wanted:
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
