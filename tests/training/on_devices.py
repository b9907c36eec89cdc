"""Trains a small memory on all devices that it finds and prints the losses; run by tests, in its own processes."""

import json
import sys

import jax

from ebmm import new_model
from ebmm.data.binary import strings
from ebmm.data.distortions import ResampledBits
from ebmm.data.episodes import Episodes
from ebmm.energies import GatedRNN
from ebmm.training.parallel import all_devices, everywhere, is_writer, join_cluster
from ebmm.training.settings import Settings, Stage
from ebmm.training.trainer import Trainer


def main(updates: int) -> None:
    join_cluster()
    mesh = all_devices()
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, hops=2, key=jax.random.key(0))
    source = strings(6)
    model = new_model(energy, source.draw(4, key=jax.random.key(1)), domain=source.domain, write_steps=2, read_steps=2)
    episodes = everywhere(Episodes(source, ResampledBits(0.5), 4, reveal=True), mesh)
    settings = Settings(updates=updates, stages=(Stage(4, 8, updates),), warm_up=0, snapshot=10, learning_rate=1e-2)
    trainer = Trainer.start(model, lambda _: episodes, settings, metric="hamming", key=jax.random.key(2), mesh=mesh)
    losses = []
    for point in trainer.train():
        losses.append(point["loss"])
        if is_writer() and point["update"] in (1, updates):
            print(json.dumps({"devices": jax.device_count(), "losses": losses}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
