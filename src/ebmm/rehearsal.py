"""Writing with rehearsal: after the learned write steps, practise reading.

Whoever stores patterns can damage copies of them, read these, and see what is wrong. So the memory is written as
learned, and then moved by steps of Adam on the very error that meta-learning minimises, Σₖ 1/N Σᵢ ‖xᵢ − xᵢ⁽ᵏ⁾‖², with
other damage in every step, and with a part of the patterns in each. Nothing but the written layers changes: the memory
is as large as before and is read in the same steps. It takes as many reads of a part, and their gradients, as there are
steps, and it has to be told the kind of damage (`docs/log.md` has numbers). The paper has no such thing.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from .careful import Careful
from .core.energy import Layers
from .core.model import EBMM
from .data.distortions import UNIT, AbstractDistortion
from .data.distortions import distortion as distortion_of
from .evaluation.errors import Watch
from .interface import AbstractMemoryModel, Domain, Readout

MOMENTA = (0.9, 0.99)
"""Adam's; the second is shorter than usual, as there are few steps."""
SEED = 20_191
"""Of the damage and the parts, where no key is given: not one of those that tests are drawn with."""
AT_ONCE = 20  # steps in a compiled call, where someone watches


class Rehearsal(eqx.Module):
    """How to practise: under which damage, in how many steps, and whether the reader is told what is undamaged."""

    damage: AbstractDistortion = eqx.field(
        converter=lambda given: distortion_of(given) if isinstance(given, str) else given
    )
    steps: int = eqx.field(static=True, default=320)
    reveal: bool = eqx.field(static=True, default=False)
    parts: int = eqx.field(static=True, default=16)
    """A step reads one part of the patterns; after so many steps all have been read, and they are dealt anew."""
    rate: float = eqx.field(static=True, default=0.04)
    """Of the first step, times the root mean square of what was written; later steps are shorter, down to zero."""

    def __check_init__(self):
        if self.steps < 1 or self.parts < 1:
            raise ValueError(f"rehearsal: got {self.steps} steps and {self.parts} parts; expected at least 1 of each.")
        if not self.rate > 0:
            raise ValueError(f"rehearsal: got a rate of {self.rate}; expected a positive number.")

    def __str__(self) -> str:
        known = ", what is undamaged known" if self.reveal else ""
        return f"{self.steps} steps under {self.damage.name}{known}"

    def report(self) -> dict[str, int | float | str | bool]:
        """All of it, for a file."""
        settings = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return settings | {"damage": self.damage.name}


class Practice(NamedTuple):
    """How far a rehearsal is."""

    layers: Layers
    adam: optax.OptState
    longest: Float[Array, ""]
    """The length of the first step."""


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
        begun = self.begin(patterns)
        return self.better(patterns, begun, self.practise(patterns, begun, *self.plan, key=key), key=key)

    @property
    def plan(self) -> tuple[Int[Array, " steps"], Float[Array, " steps"]]:
        """Which steps there are, and how long each is as a share of the first."""
        indices = jnp.arange(self.rehearsal.steps)
        return indices, 1 - indices / self.rehearsal.steps

    def begin(self, patterns: Float[Array, "n *pattern"]) -> Practice:
        """Write as learned."""
        written = self.model.write(patterns)
        numbers = jnp.concatenate([jnp.ravel(array) for array in jax.tree.leaves(written)])
        longest = self.rehearsal.rate * jnp.sqrt(jnp.mean(numbers**2))
        return Practice(written, optax.scale_by_adam(*MOMENTA).init(written), longest)

    def practise(
        self,
        patterns: Float[Array, "n *pattern"],
        practice: Practice,
        indices: Int[Array, " steps"],
        lengths: Float[Array, " steps"],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Practice:
        """Some of the steps."""
        dealing, damaging = _keys(key)
        adam = optax.scale_by_adam(*MOMENTA)

        def step(practice: Practice, index_and_length: tuple[Array, Array]) -> tuple[Practice, None]:
            index, length = index_and_length
            layers, momenta, longest = practice
            part = patterns[_part(len(patterns), self.rehearsal.parts, index, key=dealing)]
            gradient = jax.grad(self._error)(layers, part, jax.random.fold_in(damaging, index))
            direction, momenta = adam.update(gradient, momenta)
            moved = jax.tree.map(lambda now, d: (now - length * longest * d).astype(now.dtype), layers, direction)
            return Practice(moved, momenta, longest), None

        return jax.lax.scan(step, practice, (indices, lengths))[0]

    def better(
        self,
        patterns: Float[Array, "n *pattern"],
        begun: Practice,
        ended: Practice,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Layers:
        """Steps that go too far must not cost what was written: both are asked once more, under the same new damage."""
        new_damage = jax.random.fold_in(_keys(key)[1], self.rehearsal.steps)
        before, after = (self._error(each.layers, patterns, new_damage) for each in (begun, ended))
        return jax.tree.map(lambda old, new: jnp.where(after < before, new, old), begun.layers, ended.layers)

    def _error(self, layers: Layers, patterns: Array, key: PRNGKeyArray) -> Array:
        domain = UNIT if self.domain is None else self.domain
        keys = jax.random.split(key, len(patterns))
        damaged = jax.vmap(lambda x, key: self.rehearsal.damage(x, key=key, domain=domain))
        queries, undamaged = damaged(patterns, keys)
        out = self.model.read(layers, queries, known=undamaged if self.rehearsal.reveal else None)
        return jnp.sum((out.trajectory - patterns) ** 2) / len(patterns)

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


def _keys(key: PRNGKeyArray | None) -> Key[Array, " 2"]:
    """For dealing the parts, and for the damage."""
    return jax.random.split(jax.random.key(SEED) if key is None else key)


def _part(count: int, parts: int, index: Array, *, key: PRNGKeyArray) -> Int[Array, " part"]:
    """Which of so many patterns a step reads. Where they do not divide evenly, some are read twice in a round."""
    size = -(-count // parts)
    dealt = jax.random.permutation(jax.random.fold_in(key, index // parts), count)
    return dealt[(index % parts * size + jnp.arange(size)) % count]


_begin = eqx.filter_jit(lambda model, patterns: model.begin(patterns))
_practise = eqx.filter_jit(lambda model, *given: model.practise(*given))
_better = eqx.filter_jit(lambda model, *given: model.better(*given))


def write_watched(model: Rehearsed, patterns: Float[Array, "n *pattern"], watch: Watch) -> Layers:
    """What `model.write` gives, compiled in pieces, so that someone can watch how far it is."""
    # The last piece is filled up with steps of no length, so that one compiled function serves all.
    pieces = [jnp.pad(array, (0, -len(array) % AT_ONCE)).reshape(-1, AT_ONCE) for array in model.plan]
    watched = iter(watch(range(len(pieces[0]) + 2)))  # compiling takes seconds, so the two ends are pieces as well
    next(watched)
    begun = practice = jax.block_until_ready(_begin(model, patterns))
    for indices, lengths in zip(*pieces, strict=True):
        next(watched)
        practice = jax.block_until_ready(_practise(model, patterns, practice, indices, lengths))
    next(watched)
    layers = jax.block_until_ready(_better(model, patterns, begun, practice))
    next(watched, None)  # a bar ends here
    return layers


def with_rehearsal(model: AbstractMemoryModel, rehearsal: Rehearsal | None) -> AbstractMemoryModel:
    """The same model, written so; refused for other systems, whose memories are no weights of an energy."""
    if rehearsal is None:
        return model
    if not isinstance(model, EBMM | Careful):
        raise ValueError(f"rehearsal: a {type(model).__name__} is not read down an energy; leave it out for it.")
    return Rehearsed(model, rehearsal)
