"""Each network against its pseudocode, transcribed to NumPy: the paper's with the misprints mended, and our own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import average_pool, convolution, layer_norm, sigmoid

from ebmm.energies import (
    GatedRNN,
    ImageReconstruction,
    MixedImageRNN,
    MixedRNN,
    ResNetConv,
    ResNetFC,
    ResNetLowLevel,
    ResNetMixed,
    StringReconstruction,
)


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


def mixed_rnn(e, x):
    from_memory = sum(b @ linear(e.memory, a @ x) for a, b in zip(e.inward, e.outward, strict=True))
    state = np.zeros(e.hidden)
    for _ in range(3):
        both = linear(e.static, np.concatenate([x, state])) + from_memory
        u = sigmoid(both[e.hidden :])
        state = u * np.tanh(both[: e.hidden]) + (1 - u) * state
    return linear(e.out, state)[0]


def mixed_image_rnn(e, x):
    for layer in (e.first, e.second):
        blank = np.zeros_like(x)
        x = np.tanh(conv(layer, x)) - np.tanh(conv(layer, blank))
    return mixed_rnn(e.rnn, x.ravel())


def spread_out(features, times):
    """Pixel (r, c) of the larger image is entry (r mod times, c mod times) of what place (r/times, c/times) brings."""
    height, width, outputs = features.shape
    image = np.zeros((times * height, times * width, outputs // times**2))
    for row, column in np.ndindex(image.shape[:2]):
        entries = features[row // times, column // times].reshape(times, times, -1)
        image[row, column] = entries[row % times, column % times]
    return image


def recalled(e, features):
    views = np.split(e.inward.weight @ features, e.views)
    return np.tanh(linear(e.outward, np.concatenate([linear(e.memory, view) for view in views])))


def string_reconstruction(e, x):
    return ((x - linear(e.repeat, recalled(e, x))) ** 2).sum() / 2


def image_reconstruction(e, x):
    near = np.tanh(conv(e.first, x)) - np.tanh(e.first.bias)
    far = np.tanh(conv(e.second, near)) - np.tanh(e.second.bias)
    around = np.tanh(conv(e.around, far))
    redrawn = 0.1 + 0.3 * linear(e.redraw, recalled(e, far.ravel())).reshape(x.shape)
    near_weights, around_weights = conv(e.weights_near, near), conv(e.weights_around, around)
    weights = 2 * sigmoid(spread_out(near_weights, 2) + spread_out(around_weights, 4))
    prior = (near * e.prior_near).sum() + (around * e.prior_around).sum()
    return (weights * (x - redrawn) ** 2).sum() / 2 + prior


def parts(layer, x):
    """A convolution, or the static and the memory part of one, side by side or one added to the other."""
    if hasattr(layer, "inward"):
        views = zip(layer.inward, layer.outward, strict=True)
        return conv(layer.static, x) + sum(conv(layer.memory, x @ a) @ b for a, b in views)
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


def resnet_mixed(e, x):
    return resnet_conv(e.network, x)


def resnet_low_level(e, x):
    return head(e.head, resblock(e.block3, resblock(e.block2, resblock(e.block1, x))))


IMAGE = dict(image_shape=(16, 16, 2), memory_width=2)
CASES = {
    "gated RNN": (GatedRNN, gated_rnn, (6,), dict(bits=6, memory_width=2, hidden=5)),
    "mixed RNN": (MixedRNN, mixed_rnn, (6,), dict(bits=6, memory_width=2, hidden=5, views=3)),
    "mixed image RNN": (
        MixedImageRNN,
        mixed_image_rnn,
        (16, 16, 2),
        dict(image_shape=(16, 16, 2), channels=3, seen=4, memory_width=2, hidden=5, views=3),
    ),
    "string reconstruction": (
        StringReconstruction,
        string_reconstruction,
        (6,),
        dict(bits=6, seen=4, memory_width=2, hidden=5, views=3),
    ),
    "image reconstruction": (
        ImageReconstruction,
        image_reconstruction,
        (16, 8, 2),
        dict(image_shape=(16, 8, 2), channels=3, seen=4, memory_width=2, hidden=5, views=3),
    ),
    "ResNet FC": (ResNetFC, resnet_fc, (16, 16, 2), dict(**IMAGE, channels=3, code=6, hidden=7)),
    "ResNet conv": (ResNetConv, resnet_conv, (16, 16, 2), dict(**IMAGE, channels=2, hidden=3, dense=5)),
    "ResNet ImageNet": (ResNetConv, resnet_conv, (16, 16, 2), dict(**IMAGE, channels=2, hidden=3, dense=5, halvings=4)),
    "ResNet mixed": (ResNetMixed, resnet_mixed, (16, 16, 2), dict(**IMAGE, channels=2, hidden=3, dense=5, views=3)),
    "ResNet low-level": (ResNetLowLevel, resnet_low_level, (16, 16, 2), dict(**IMAGE, channels=2, hidden=3, dense=5)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_network_is_its_pseudocode(float64, rng, case):
    network, reference, shape, settings = CASES[case]
    energy = network(**settings, key=jax.random.key(0))
    # Random biases, scales and offsets too: as they start, zeros and ones would hide a misplaced one.
    energy = jax.tree.map(lambda a: a + jnp.asarray(0.3 * rng.normal(size=a.shape)), energy)
    x = rng.normal(size=shape)
    expected = reference(jax.tree.map(np.asarray, energy), x)
    np.testing.assert_allclose(energy(jnp.asarray(x)), expected, rtol=1e-9, atol=1e-10)
    if hasattr(energy, "spread"):
        np.testing.assert_allclose(energy.spread()(jnp.asarray(x)), expected, rtol=1e-9, atol=1e-10)


def test_the_gated_rnn_is_a_mixed_rnn_with_a_certain_choice_of_matrices(float64, rng):
    """One view, of the bits as they are, whose memory is the candidate of units that nothing else speaks to."""
    gated = GatedRNN(bits=6, memory_width=2, hidden=5, key=jax.random.key(0))
    gated = jax.tree.map(lambda a: a + jnp.asarray(0.3 * rng.normal(size=a.shape)), gated)
    mixed = MixedRNN(bits=6, memory_width=2, hidden=5, views=1, hops=5, key=jax.random.key(0))
    nothing = jnp.zeros((2, 6 + 5))
    mixed = eqx.tree_at(
        lambda e: (e.memory, e.inward, e.outward, e.static.weight, e.static.bias, e.out),
        mixed,
        (
            gated.memory,
            jnp.eye(6)[None],
            jnp.eye(10, 2)[None],
            jnp.concatenate([nothing, gated.static.weight, gated.gate.weight]),
            jnp.concatenate([nothing[:, 0], gated.static.bias, gated.gate.bias]),
            gated.out,
        ),
    )
    x = jnp.asarray(rng.normal(size=6))
    np.testing.assert_allclose(mixed(x), gated(x), rtol=1e-12)
    same, other = (jax.grad(lambda m, e=e: eqx.tree_at(lambda t: t.memory.weight, e, m)(x)) for e in (mixed, gated))
    np.testing.assert_allclose(same(gated.memory.weight), other(gated.memory.weight), rtol=1e-11)


def test_images_that_a_reconstruction_cannot_halve_twice_are_refused():
    with pytest.raises(ValueError, match="got images of 16×18; expected sides that can be divided by 4"):
        ImageReconstruction(image_shape=(16, 18, 1), key=jax.random.key(0))
