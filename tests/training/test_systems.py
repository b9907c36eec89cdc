"""Every system that can be trained learns something in a few seconds, by the same trainer."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from ebmm.baselines import SYSTEMS, Plasticity
from ebmm.experiments import EXPERIMENTS
from ebmm.pretrained import save_model
from ebmm.training.run import Run
from ebmm.training.settings import Stage

UNTRAINED = {"DeepImagePrior", "ExactStore", "Hopfield", "ModernHopfield"}
SIZES = {
    "AutoEncoder": {"code": 8, "hidden": 16},
    "KanervaMachine": {"slots": 4, "code": 8},
    "LSTM": {"hidden": 32},
    "MANN": {"slots": 4, "width": 17, "hidden": 16},
    "MemoryNetwork": {"slots": 4, "width": 17},
    "Plasticity": {"plasticity": "shared"},
    "VAE": {"latents": 8, "hidden": 16, "read_steps": 2},
}


def test_every_system_is_trained_here_or_nowhere():
    assert set(SIZES) | UNTRAINED == set(SYSTEMS)


def weakened(folder):
    """Plasticity starts as a Hopfield network, which random strings leave little to learn: start it from less."""
    model = Plasticity((16,), domain=(-1.0, 1.0), **SIZES["Plasticity"], key=jax.random.key(0))
    save_model(eqx.tree_at(lambda m: m.plastic, model, 0.1 * model.plastic), folder / "start", name="weak")
    return folder / "start"


@pytest.mark.parametrize("name", SIZES)
def test_it_learns(name, tmp_path):
    debug = EXPERIMENTS["debug"]
    settings = replace(debug.settings, updates=200, stages=(Stage(4, 4, 200),), snapshot=100)
    experiment = replace(debug, network=name, sizes=SIZES[name], settings=settings, held_out=0)
    start = weakened(tmp_path) if name == "Plasticity" else None
    run = Run.open(experiment, tmp_path / name, start=start)
    losses = [point["loss"] for point in run.train()]
    assert np.mean(losses[-20:]) < 0.95 * np.mean(losses[:20])
    assert (tmp_path / name / "model/model.safetensors").exists()
