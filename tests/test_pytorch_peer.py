"""Every gradient against an independent implementation in PyTorch, where that is installed."""

import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, small_conv, small_rnn, strings

from ebmm import reconstruction_loss
from ebmm.files import named_arrays

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
reference = pytest.importorskip("pytorch_reference")


def small_conv_energy(tensors, images):
    features = reference.bottleneck(tensors, "energy.block", images.permute(0, 3, 1, 2), stride=2)
    return reference.linear(tensors, "energy.readout", torch.tanh(features.permute(0, 2, 3, 1).flatten(1)))[:, 0]


def rnn_episode():
    patterns, noise = strings(4, 6, seed=1), strings(4, 6, seed=2)
    known = jnp.tile(jnp.arange(6) % 2 == 0, (4, 1))
    return patterns, jnp.where(known, patterns, noise), known


CASES = {
    "gated RNN": (small_rnn, partial(reference.gated_rnn, hops=2), rnn_episode),
    # The whole convolutional network compiles for minutes; `benchmarks/against_pytorch.py` compares that.
    "convolutional memory": (
        small_conv,
        small_conv_energy,
        lambda: (images(3, 8, 8, 1, seed=1), images(3, 8, 8, 1, seed=2), None),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_loss_and_every_gradient_agree(float64, case):
    make, energy, draw = CASES[case]
    model, episode = make(), draw()
    patterns, queries, known = episode

    def loss_of(model):
        return reconstruction_loss(model, patterns, queries, known=known)

    loss, slopes = jax.jit(jax.value_and_grad(loss_of))(model)
    theirs_loss, theirs = reference.loss_and_meta_gradient(
        energy,
        reference.as_tensors(named_arrays(model)),
        *(torch.tensor(np.asarray(x)) for x in (patterns, queries)),
        domain=model.domain,
        known=None if known is None else torch.tensor(np.asarray(known)),
    )
    np.testing.assert_allclose(loss, theirs_loss.numpy(), rtol=1e-9)
    ours = named_arrays(slopes)
    assert ours.keys() == theirs.keys()
    for name, slope in theirs.items():
        difference, size = np.linalg.norm(ours[name] - slope.numpy()), np.linalg.norm(ours[name])
        assert difference <= 1e-4 * size, f"{name}: {difference} of {size}"
