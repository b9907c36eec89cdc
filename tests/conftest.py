"""Shared by all tests: a compilation cache, float64 on request, and the small models that most of them use."""

import os
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmm import new_model
from ebmm.data.binary import strings as random_strings
from ebmm.data.distortions import RandomBlock, ResampledBits
from ebmm.data.episodes import Episodes
from ebmm.data.images import Images
from ebmm.energies import GatedRNN
from ebmm.layers import Bottleneck, he_linear

# Most of the time goes into compiling: optimizing code that runs once does not pay, and XLA's newer way to emit fused
# loops takes more than twice as long as the one before it.
QUICK = ("--xla_backend_optimization_level=0", "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters")
os.environ.setdefault("XLA_FLAGS", " ".join(QUICK))
CACHE = Path(__file__).parents[1] / ".cache" / "jax"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def strings(*shape, seed=0):
    """Random ±1 patterns."""
    return jnp.where(jax.random.bernoulli(jax.random.key(seed), 0.5, shape), 1.0, -1.0)


def images(*shape, seed=0):
    """Random pixels inside [0, 1], away from its ends."""
    return jax.random.uniform(jax.random.key(seed), shape, minval=0.1, maxval=0.9)


def small_rnn(seed=0):
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, hops=2, key=jax.random.key(seed))
    return new_model(energy, strings(4, 6), domain=(-1.0, 1.0), write_steps=2, read_steps=3)


class Shallow(eqx.Module):
    """One layer, which is the memory, and a readout: for tests of what does not depend on the network."""

    memory: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, *, key):
        keys = jax.random.split(key)
        self.memory, self.out = he_linear(6, 3, key=keys[0]), he_linear(3, 1, key=keys[1])

    @property
    def writable(self):
        return (self.memory,)

    def __call__(self, string):
        return self.out(jnp.tanh(self.memory(string)))[0]


def small_shallow():
    energy = Shallow(key=jax.random.key(0))
    return new_model(energy, strings(4, 6), domain=(-1.0, 1.0), write_steps=2, read_steps=3)


class SmallConv(eqx.Module):
    """The block that holds the memory in the paper's convolutional networks, and a readout: quick to compile."""

    block: Bottleneck
    readout: eqx.nn.Linear

    def __init__(self, *, key):
        block_key, readout_key = jax.random.split(key)
        self.block = Bottleneck(1, 4, 3, 1, downscale=True, key=block_key)
        self.readout = he_linear(4 * 4 * 4, 1, key=readout_key)

    @property
    def writable(self):
        return (self.block.memory,)

    def __call__(self, image):
        return self.readout(jnp.tanh(jnp.ravel(self.block(image))))[0]


def small_conv(seed=0):
    energy = SmallConv(key=jax.random.key(seed))
    return new_model(energy, images(3, 8, 8, 1), write_steps=2, read_steps=2)


def pytest_collection_modifyitems(items):
    """Files whose tests are few and slow begin, so that no process is left with one of them at the end."""
    slow = ("training", "cli")
    items.sort(key=lambda item: slow.index(item.path.parent.name) if item.path.parent.name in slow else len(slow))


@pytest.fixture(autouse=True, scope="module")
def forget_what_was_compiled():
    """Every compiled function holds memory maps, of which Linux allows a process 65,530: too few for all tests."""
    yield
    jax.clear_caches()


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def rnn():
    return small_rnn()


@pytest.fixture(scope="session")
def shallow():
    return small_shallow()


@pytest.fixture(scope="session")
def conv():
    return small_conv()


@pytest.fixture(scope="session")
def string_episodes():
    return Episodes(random_strings(6), ResampledBits(0.5), 4, reveal=True)


@pytest.fixture(scope="session")
def small_images():
    """Forty drawings of 8×8 bits, a fifth of which is ink."""
    pixels = np.random.default_rng(0).random((40, 8, 8, 1)) < 0.2
    return Images.packed(pixels, np.arange(40) // 4, levels=1)


@pytest.fixture(scope="session")
def image_episodes(small_images):
    return Episodes(small_images, RandomBlock(4), 5)


@pytest.fixture
def key():
    return jax.random.key(0)
