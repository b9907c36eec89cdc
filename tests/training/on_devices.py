"""Trains a small memory on all devices that it finds and prints the losses; run by tests, also in own processes."""

import json
import sys

import jax
from conftest import small_shallow

from ebmm.data.binary import strings
from ebmm.data.distortions import ResampledBits
from ebmm.data.episodes import Episodes
from ebmm.training.parallel import all_devices, everywhere, is_writer, join_cluster
from ebmm.training.settings import Settings, Stage
from ebmm.training.trainer import Trainer


def main(updates: int) -> list[float]:
    join_cluster()
    mesh = all_devices()
    episodes = everywhere(Episodes(strings(6), ResampledBits(0.5), 4, reveal=True), mesh)
    settings = Settings(updates=updates, stages=(Stage(4, 8, updates),), warm_up=0, snapshot=10, learning_rate=1e-2)
    trainer = Trainer.start(
        small_shallow(), lambda _: episodes, settings, metric="hamming", key=jax.random.key(2), mesh=mesh
    )
    losses = []
    for point in trainer.train():
        losses.append(point["loss"])
        if is_writer() and point["update"] in (1, updates):
            print(json.dumps({"devices": jax.device_count(), "losses": losses}), flush=True)
    return losses


if __name__ == "__main__":
    main(int(sys.argv[1]))
