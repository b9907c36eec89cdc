"""Your own memory system: a matrix of associations between learned keys and patterns, trained like all others.

python examples/your_own_system.py        # half a minute on two CPU cores
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from rich.progress import track

import ebmm
from ebmm.baselines import SYSTEMS
from ebmm.interface import AbstractMemoryModel, Domain, Readout


class Matrix(AbstractMemoryModel):
    """Patterns of ±1 stored as a sum of outer products with keys that a learned layer makes of them."""

    keys: eqx.nn.Linear
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)
    width: int = eqx.field(static=True)

    # Every argument but `key` is kept as a field of the same name, so that a saved model can be built again.
    def __init__(
        self, pattern_shape: tuple[int, ...], *, domain: Domain = (-1.0, 1.0), width: int = 64, key: PRNGKeyArray
    ):
        if len(pattern_shape) != 1 or width < 1:
            raise ValueError(
                f"got patterns of shape {pattern_shape} and width {width}; expected (bits,) and at least 1."
            )
        self.keys = eqx.nn.Linear(pattern_shape[0], width, key=key)
        self.pattern_shape, self.domain, self.width = pattern_shape, domain, width

    @property
    def memory_size(self) -> int:
        return self.width * self.pattern_shape[0]

    @property
    def initial_state(self) -> Float[Array, "width bits"]:
        return jnp.zeros((self.width, *self.pattern_shape))

    def write(self, patterns: Float[Array, "n bits"], *, key: PRNGKeyArray | None = None) -> Float[Array, "width bits"]:
        return jax.vmap(self._key)(patterns).T @ patterns

    def read(
        self,
        state: Float[Array, "width bits"],
        queries: Float[Array, "n bits"],
        *,
        known: Bool[Array, "n bits"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        seen = queries if known is None else jnp.where(known, queries, 0.0)  # resampled bits tell nothing
        recalled = jnp.tanh(jax.vmap(self._key)(seen) @ state)
        if known is not None:
            recalled = jnp.where(known, queries, recalled)
        return Readout(recalled, recalled[None], None)

    def energies(self, state: Float[Array, "width bits"], patterns: Float[Array, "n bits"]) -> None:
        return None

    def _key(self, pattern: Float[Array, " bits"]) -> Float[Array, " width"]:
        made = jnp.tanh(self.keys(pattern))
        return made / (1e-3 + jnp.linalg.norm(made))


SYSTEMS["Matrix"] = Matrix  # now experiments can name it, and saved ones can be loaded


def main(updates: int = 2000):
    episode = partial(ebmm.string_episode, patterns=8, bits=32)
    model = Matrix((32,), width=64, key=jax.random.key(0))
    learning = ebmm.meta_learning(model, episode, updates=updates, key=jax.random.key(1))
    for model, _loss in track(learning, "meta-learning", total=updates):  # noqa: B007
        pass

    patterns, damaged, known = episode(jax.random.key(2))
    memory = ebmm.Memory(model).write(patterns)
    recalled = memory.read(damaged, known=known).patterns
    wrong_bits = [float(jnp.sum(jnp.sign(x) != patterns, axis=1).mean()) for x in (damaged, recalled)]
    print(memory)
    print("wrong bits of 32: {:.2f} in the damaged strings, {:.2f} recalled".format(*wrong_bits))
    return wrong_bits


if __name__ == "__main__":
    main()
