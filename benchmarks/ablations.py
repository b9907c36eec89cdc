"""What each ingredient of the `fast` preset is worth on the small task: one switched off, or on, at a time.

    python benchmarks/ablations.py --updates 4000 --seeds 0 1 --out ablations.json

`binary-small`, 8 strings of 32 bits in 528 floats; wrong bits over 200 test batches at the end. A run that gives up is
reported with its last good state.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tyro
from rich.progress import track

from ebmm.experiments import EXPERIMENTS
from ebmm.files import as_json, write_whole
from ebmm.initial import PAPER
from ebmm.provenance import provenance
from ebmm.training.progress import Diverged
from ebmm.training.run import Run
from ebmm.training.settings import Stage, paper


def variants(updates: int) -> dict[str, Any]:
    """The changed settings by what was changed."""
    fast = replace(EXPERIMENTS["binary-small"].settings, updates=updates, stages=(Stage(8, 4, updates),))
    third = updates // 3
    return {
        "fast": fast,
        "without clipping of episodes": replace(fast, episode_clip=None),
        "without a limit of the cotangent": replace(fast, cotangent_limit=None),
        "without steps back": replace(fast, step_back=None),
        "without roll-back": replace(fast, roll_back=None),
        "without steps back and roll-back": replace(fast, step_back=None, roll_back=None),
        "episodes in groups of two": replace(fast, group=2),
        "without warm-up and decay": replace(fast, warm_up=0, decay=0.0),
        "step sizes as fast as weights": replace(fast, step_size_factor=1.0),
        "first rates of the paper": replace(fast, initial=PAPER),
        "with an average of the weights (0.999)": replace(fast, average=0.999),
        "with a curriculum (2, 4, 8 patterns)": replace(
            fast, stages=(Stage(2, 16, third), Stage(4, 8, third), Stage(8, 4, updates))
        ),
        "the paper's settings": paper(updates=updates, stage=Stage(8, 4, updates)),
    }


def measure(settings: Any, seed: int) -> dict[str, Any]:
    experiment = replace(EXPERIMENTS["binary-small"], settings=settings, beside=())
    with TemporaryDirectory() as folder:
        run = Run.open(experiment, Path(folder) / "run", seed=seed)
        gave_up = False
        try:
            for _ in run.train():
                pass
        except Diverged:
            gave_up = True
        progress = run.trainer.progress
        return {
            "seed": seed,
            "wrong_bits": run.comparison(200)[experiment.name],
            "roll_backs": progress.roll_backs,
            "dropped": progress.dropped,
            "gave_up": gave_up,
            "seconds": round(progress.seconds, 1),
        }


def main(updates: int = 4000, seeds: tuple[int, ...] = (0, 1), out: Path | None = None) -> None:
    rows: list[dict[str, Any]] = []
    plan = [(name, settings, seed) for name, settings in variants(updates).items() for seed in seeds]
    for name, settings, seed in track(plan, "Training"):
        rows.append({"variant": name, **measure(settings, seed)})
        print(rows[-1], flush=True)
        if out:
            write_whole({out: as_json({"updates": updates, **provenance(seed=seeds[0]), "rows": rows})})


if __name__ == "__main__":
    tyro.cli(main)
