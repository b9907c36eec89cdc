"""Writing with rehearsal: after the learned write steps, practise reading.

Whoever stores patterns can damage copies of them, read these, and see what is wrong. So the memory is written as
learned, and then moved by steps of Adam on the very error that meta-learning minimises, Σₖ 1/N Σᵢ ‖xᵢ − xᵢ⁽ᵏ⁾‖², with
other damage in every step. Nothing but the written layers changes: the memory is as large as before and is read in the
same steps. It takes as many reads, and their gradients, as there are steps, and it has to be told the kind of damage
(`docs/log.md` has numbers). The paper has no such thing.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .careful import Careful
from .core.energy import Layers
from .core.model import EBMM
from .data.distortions import UNIT, AbstractDistortion
from .data.distortions import distortion as distortion_of
from .interface import AbstractMemoryModel, Domain, Readout

RATE = 0.1
"""Of the first step, times the root mean square of what was written; later steps are shorter, down to zero."""
MOMENTA = (0.9, 0.99)
"""Adam's; the second is shorter than usual, as there are few steps."""


class Rehearsal(eqx.Module):
    """How to practise: under which damage, in how many steps, and whether the reader is told what is undamaged."""

    damage: AbstractDistortion = eqx.field(
        converter=lambda given: distortion_of(given) if isinstance(given, str) else given
    )
    steps: int = eqx.field(static=True, default=100)
    reveal: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.steps < 1:
            raise ValueError(f"rehearsal: got {self.steps} steps; expected at least 1.")


class Rehearsed(AbstractMemoryModel):
    """The same model, written with rehearsal."""

    model: EBMM | Careful
    rehearsal: Rehearsal
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    domain: Domain = eqx.field(static=True)

    def __init__(self, model: EBMM | Careful, rehearsal: Rehearsal):
        self.model, self.rehearsal = model, rehearsal
        self.pattern_shape, self.domain = model.pattern_shape, model.domain

    @property
    def initial_state(self) -> Layers:
        return self.model.initial_state

    @property
    def memory_size(self) -> int:
        return self.model.memory_size

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Layers:
        key = jax.random.key(0) if key is None else key
        steps = self.rehearsal.steps
        written = self.model.write(patterns)
        numbers = jnp.concatenate([jnp.ravel(array) for array in jax.tree.leaves(written)])
        first = RATE * jnp.sqrt(jnp.mean(numbers**2))
        adam = optax.scale_by_adam(*MOMENTA)

        def error(state: Layers, key: PRNGKeyArray) -> Array:
            queries, undamaged = self._damaged(patterns, key)
            out = self.model.read(state, queries, known=undamaged if self.rehearsal.reveal else None)
            return jnp.sum((out.trajectory - patterns) ** 2) / len(patterns)

        def step(carry: tuple[Layers, optax.OptState], index: Array):
            state, memory_of_adam = carry
            gradient = jax.grad(error)(state, jax.random.fold_in(key, index))
            direction, memory_of_adam = adam.update(gradient, memory_of_adam)
            length = first * (1 - index / steps)
            state = jax.tree.map(lambda now, d: (now - length * d).astype(now.dtype), state, direction)
            return (state, memory_of_adam), None

        (rehearsed, _), _ = jax.lax.scan(step, (written, adam.init(written)), jnp.arange(steps))
        # Steps that go too far must not cost what was written: both are asked once more, under the same new damage.
        before, after = (error(state, jax.random.fold_in(key, steps)) for state in (written, rehearsed))
        return jax.tree.map(lambda new, old: jnp.where(after < before, new, old), rehearsed, written)

    def _damaged(self, patterns: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        domain = UNIT if self.domain is None else self.domain
        keys = jax.random.split(key, len(patterns))
        return jax.vmap(lambda x, key: self.rehearsal.damage(x, key=key, domain=domain))(patterns, keys)

    def read(
        self,
        state: Layers,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        return self.model.read(state, queries, known=known)

    def energies(self, state: Layers, patterns: Float[Array, "n *pattern"]) -> Float[Array, " n"]:
        return self.model.energies(state, patterns)


def with_rehearsal(model: AbstractMemoryModel, rehearsal: Rehearsal | None) -> AbstractMemoryModel:
    """The same model, written so; refused for other systems, whose memories are no weights of an energy."""
    if rehearsal is None:
        return model
    if not isinstance(model, EBMM | Careful):
        raise ValueError(f"rehearsal: a {type(model).__name__} is not read down an energy; leave it out for it.")
    return Rehearsed(model, rehearsal)
