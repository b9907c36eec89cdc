"""The one interface of every memory model: one trainer, one evaluator and one test suite serve them all."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

Domain = tuple[float, float] | None
"""The interval that every value of a pattern lies in, or None for the whole line."""


def as_domain(given: Any) -> Domain:
    """An interval given in any numbers, as two floats."""
    if given is None:
        return None
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"domain: got {given!r}; expected None or two finite numbers, the lower first.")
    return low, high


class Readout(eqx.Module):
    """What reading returns: the last iterates, all of them, and their energies, the queries' first.

    A memory that was asked for a single pattern leaves the batch axis n out.
    """

    patterns: Float[Array, "*n_pattern"]
    trajectory: Float[Array, "steps *n_pattern"]
    energies: Float[Array, "steps_and_query *n"] | None


class AbstractMemoryModel(eqx.Module):
    """Anything that stores a batch of patterns in a state and recovers them from damaged copies."""

    pattern_shape: eqx.AbstractVar[tuple[int, ...]]
    domain: eqx.AbstractVar[Domain]

    @property
    @abc.abstractmethod
    def memory_size(self) -> int:
        """The number of floats that writing may change."""

    @property
    @abc.abstractmethod
    def initial_state(self) -> PyTree:
        """The state of a memory that nothing has been written to."""

    @abc.abstractmethod
    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> PyTree:
        """The state that holds these patterns."""

    @abc.abstractmethod
    def read(
        self,
        state: PyTree,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        """What the state recalls for each query; the dimensions marked in `known` are undamaged."""

    @abc.abstractmethod
    def energies(self, state: PyTree, patterns: Float[Array, "n *pattern"]) -> Float[Array, " n"] | None:
        """The energy of each pattern, or None where the model defines none."""

    def loss(
        self,
        patterns: Float[Array, "n *pattern"],
        queries: Float[Array, "copies_of_n *pattern"],
        *,
        known: Bool[Array, "copies_of_n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
        last_steps: int | None = None,
    ) -> tuple[Float[Array, ""], Float[Array, "copies_of_n *pattern"]]:
        """What an episode costs in training, and what is recalled in it.

        The patterns are written, the queries read, and the squared error is summed over all iterates, or over those of
        the last steps alone, Σₖ 1/N Σᵢ ‖xᵢ − xᵢ⁽ᵏ⁾‖². Queries may be several copies of all patterns, one after the
        other; then the mean is over all of them. A system with a training objective of its own replaces this, and has
        no use for `last_steps`.
        """
        write_key, read_key = (None, None) if key is None else jax.random.split(key)
        out = self.read(self.write(patterns, key=write_key), queries, known=known, key=read_key)
        wanted = behind(queries, patterns)
        counted = out.trajectory if last_steps is None else out.trajectory[-last_steps:]
        return jnp.sum((counted - wanted) ** 2) / len(queries), out.patterns


def behind(
    queries: Float[Array, "copies_of_n *pattern"], patterns: Float[Array, "n *pattern"]
) -> Float[Array, "copies_of_n *pattern"]:
    """The pattern that each query is a damaged copy of."""
    return repeated(patterns, len(queries) // len(patterns))


def repeated(patterns: Float[Array, "n *pattern"], copies: int) -> Float[Array, "copies_of_n *pattern"]:
    """So many copies of all patterns, one after the other."""
    return patterns if copies == 1 else jnp.concatenate([patterns] * copies)
