"""The paper's memory model: an energy, the rates it is written and read with, and the patterns' domain."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..checks import check_energy
from ..interface import AbstractMemoryModel, Domain, Readout, as_domain
from ..loops import PLAIN, Loop
from .energy import Energy, Layers, Where, with_layers, writable_layers
from .rates import ReadRates, WriteRates
from .reading import read
from .writing import write

STEP_SIZES = ("write_rates", "read_rates")
"""The fields of a model that are no weights."""


def own_layers(energy: Any) -> Any:
    """The default `where`: an energy that names its writable layers itself, as the paper's five do."""
    if not hasattr(energy, "writable"):
        raise ValueError(f"{type(energy).__name__} names no layers to write; pass `where=lambda e: (e.some_layer,)`.")
    return energy.writable


class EBMM(AbstractMemoryModel):
    """An energy-based memory model. Its arrays are what meta-learning learns; its state is the written layers."""

    energy: Energy
    write_rates: WriteRates
    read_rates: ReadRates
    pattern_shape: tuple[int, ...] = eqx.field(static=True)
    where: Where = eqx.field(static=True, default=own_layers)
    domain: Domain = eqx.field(static=True, default=(0.0, 1.0), converter=as_domain)
    gradient_term: bool = eqx.field(static=True, default=True)
    """Whether ‖∇ₓE‖² is a part of the writing loss."""
    loop: Loop = eqx.field(static=True, default=PLAIN)

    def __check_init__(self):
        check_energy(self.energy, self.where, self.pattern_shape)
        named, rated = len(self.initial_state), self.write_rates.raw.shape[1]
        if named != rated:
            raise ValueError(f"`where` names {named} layers; the write rates are for {rated}.")

    @property
    def initial_state(self) -> Layers:
        return writable_layers(self.energy, self.where)

    @property
    def memory_size(self) -> int:
        return sum(array.size for array in jax.tree.leaves(self.initial_state))

    def write(self, patterns: Float[Array, "n *pattern"], *, key: PRNGKeyArray | None = None) -> Layers:
        return write(
            self.energy, self.where, self.write_rates, patterns, gradient_term=self.gradient_term, loop=self.loop
        )

    def read(
        self,
        state: Layers,
        queries: Float[Array, "n *pattern"],
        *,
        known: Bool[Array, "n *pattern"] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Readout:
        energy = with_layers(self.energy, self.where, state)

        def read_one(query: Array, known: Array | None) -> tuple[Array, Array]:
            return read(energy, self.read_rates, query, domain=self.domain, known=known, loop=self.loop)

        trajectory, energies = jax.vmap(read_one, out_axes=1)(queries, known)
        return Readout(trajectory[-1], trajectory, energies)

    def energies(self, state: Layers, patterns: Float[Array, "n *pattern"]) -> Float[Array, " n"]:
        return jax.vmap(with_layers(self.energy, self.where, state))(patterns)
