"""Each network against its pseudocode in the paper, transcribed to NumPy with the misprints mended."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import average_pool, convolution, layer_norm, sigmoid

from ebmm.energies import GatedRNN, ResNetConv, ResNetFC, ResNetLowLevel


def linear(layer, x):
    return layer.weight @ x + layer.bias


def conv(layer, x):
    return convolution(x, layer.kernel, layer.bias, layer.stride)


def norm(layer, x):
    return layer_norm(x, layer.scale, layer.offset)


def gated_rnn(e, x):
    state = np.zeros(e.hidden)
    for _ in range(5):
        z = np.concatenate([x, state])
        c = np.tanh(np.concatenate([linear(e.memory, x), linear(e.static, z)]))
        u = sigmoid(linear(e.gate, z))
        state = u * c + (1 - u) * state
    return linear(e.out, state)[0]


def parts(layer, x):
    """A convolution, or the static and the memory part of one."""
    if hasattr(layer, "memory"):
        return np.concatenate([conv(layer.static, x), conv(layer.memory, x)], -1)
    return conv(layer, x)


def resblock(block, x):
    z = x
    x = np.tanh(norm(block.first_norm, parts(block.first, x)))
    y = np.tanh(norm(block.second_norm, parts(block.second, x) + x))
    return x + y + average_pool(conv(block.skip, z))


def bottleneck(block, x, downscale):
    z = x
    x = np.tanh(norm(block.narrow_norm, conv(block.narrow, x)))
    x = np.tanh(norm(block.wide_norm, parts(block.wide, x)))
    z = conv(block.skip, z)
    return x + (average_pool(z) if downscale else z)


def head(h, x):
    state = np.zeros((*x.shape[:2], h.candidate.bias.size))
    for _ in range(3):
        z = np.concatenate([x, state], -1)
        c = np.tanh(norm(h.candidate_norm, conv(h.candidate, z)))
        u = sigmoid(norm(h.gate_norm, conv(h.gate, z)))
        state = u * c + (1 - u) * state
    return linear(h.out, np.tanh(linear(h.dense, state.ravel())))[0]


def resnet_fc(e, x):
    for block in e.encoder.blocks:
        x = resblock(block, x)
    x = norm(e.encoder.norm, linear(e.encoder.dense, x.ravel()))
    x = np.tanh(np.concatenate([linear(e.memory, x), linear(e.static, x)]))
    state = np.zeros(e.hidden)
    for _ in range(3):
        z = np.concatenate([x, state])
        c = norm(e.candidate_norm, np.tanh(linear(e.candidate, z)))
        u = sigmoid(linear(e.gate, z))
        state = u * c + (1 - u) * state
    return linear(e.out, np.tanh(linear(e.dense, state)))[0]


def resnet_conv(e, x):
    x = resblock(e.block2, resblock(e.block1, x))
    x = bottleneck(e.block4, bottleneck(e.block3, x, downscale=e.halvings == 4), downscale=True)
    return head(e.head, x)


def resnet_low_level(e, x):
    return head(e.head, resblock(e.block3, resblock(e.block2, resblock(e.block1, x))))


IMAGE = dict(image_shape=(16, 16, 2), memory_width=2)
CASES = {
    "gated RNN": (GatedRNN, gated_rnn, (6,), dict(bits=6, memory_width=2, hidden=5)),
    "ResNet FC": (ResNetFC, resnet_fc, (16, 16, 2), dict(**IMAGE, channels=3, code=6, hidden=7)),
    "ResNet conv": (ResNetConv, resnet_conv, (16, 16, 2), dict(**IMAGE, channels=2, hidden=3, dense=5)),
    "ResNet ImageNet": (ResNetConv, resnet_conv, (16, 16, 2), dict(**IMAGE, channels=2, hidden=3, dense=5, halvings=4)),
    "ResNet low-level": (ResNetLowLevel, resnet_low_level, (16, 16, 2), dict(**IMAGE, channels=2, hidden=3, dense=5)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_network_is_the_papers_pseudocode(float64, rng, case):
    network, reference, shape, settings = CASES[case]
    energy = network(**settings, key=jax.random.key(0))
    # Random biases, scales and offsets too: as they start, zeros and ones would hide a misplaced one.
    energy = jax.tree.map(lambda a: a + jnp.asarray(0.3 * rng.normal(size=a.shape)), energy)
    x = rng.normal(size=shape)
    expected = reference(jax.tree.map(np.asarray, energy), x)
    np.testing.assert_allclose(energy(jnp.asarray(x)), expected, rtol=1e-9, atol=1e-10)
    if hasattr(energy, "spread"):
        np.testing.assert_allclose(energy.spread()(jnp.asarray(x)), expected, rtol=1e-9, atol=1e-10)
