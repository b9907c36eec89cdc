"""Your own network as a memory: an MLP stores eight 32-bit strings and recalls them from half of their bits.

python examples/your_own_energy.py        # about a minute on two CPU cores
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from rich.progress import track

import ebmm


def main(updates: int = 2000):
    episode = partial(ebmm.string_episode, patterns=8, bits=32)

    # Any network from a pattern to one number is an energy. Its first layer is the memory.
    network = eqx.nn.MLP(32, "scalar", width_size=128, depth=2, activation=jnp.tanh, key=jax.random.key(0))
    first_batch = episode(jax.random.key(1)).patterns
    model = ebmm.new_model(network, first_batch, where=lambda mlp: mlp.layers[0], domain=(-1.0, 1.0))

    # Learn initial weights and step sizes with which five gradient steps write, and five read.
    learning = ebmm.meta_learning(model, episode, updates=updates, key=jax.random.key(2))
    for model, _loss in track(learning, "meta-learning", total=updates):  # noqa: B007
        pass

    # Store strings it has never seen.
    memory = ebmm.Memory(model, "your-mlp")
    patterns, damaged, known = episode(jax.random.key(3))
    recalled = memory.write(patterns).read(damaged, known=known).patterns
    wrong_bits = [float(jnp.sum(jnp.sign(x) != patterns, axis=1).mean()) for x in (damaged, recalled)]
    print(memory)
    print("wrong bits of 32: {:.2f} in the damaged strings, {:.2f} recalled".format(*wrong_bits))
    return wrong_bits


if __name__ == "__main__":
    main()
