"""Where meta-learning starts: the first values of all rates, as the paper gives them or fitted to an energy."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from .core.energy import Energy, Where, writable_layers
from .core.model import EBMM, own_layers
from .core.rates import ReadRates, WriteRates
from .core.writing import writing_gradients
from .interface import Domain


@dataclass(frozen=True)
class InitialRates:
    """The first value of every rate.

    With `relative`, the first three are no rates but shares, and the rates are fitted on a first batch:
    all write steps of a term together move each layer by that share of its norm, and the first read step
    moves a pattern's values, in the root mean square, by that share of half their range. Gradients differ
    in size by up to four orders of magnitude from network to network; rates of one size either do nothing
    or destroy the memory before meta-learning can begin.
    """

    energy: float = 0.35
    gradient: float = 0.03
    read: float = 0.4
    prior: float = 1e-3
    momentum: float = 0.5
    decay: float = 0.8
    """Each read rate and momentum as a share of the one before."""
    relative: bool = True


CALIBRATED = InitialRates()
PAPER = InitialRates(energy=1e-4, gradient=1e-4, prior=1e-4, read=0.3, momentum=0.1, relative=False)
"""The paper's write rates, read as values after the softplus. It gives no read rates: those are ours."""


def initial_rates(
    energy: Energy,
    where: Where,
    patterns: Float[Array, "n *pattern"],
    domain: Domain,
    *,
    write_steps: int,
    read_steps: int,
    initial: InitialRates,
) -> tuple[WriteRates, ReadRates]:
    layers = writable_layers(energy, where)
    write = jnp.tile(jnp.array([initial.energy, initial.gradient, initial.prior]), (len(layers), 1))
    read = jnp.asarray(initial.read)
    if initial.relative:
        gradients = writing_gradients(energy, where, layers, patterns)
        norms = jnp.array([[optax.tree.norm(layer) for layer in trees] for trees in (layers, *gradients)])
        write = write.at[:, :2].multiply((norms[0] / (write_steps * norms[1:])).T)
        half_range = jnp.std(patterns) if domain is None else (domain[1] - domain[0]) / 2
        slopes = jax.vmap(jax.grad(energy))(patterns)
        read = read * half_range / jnp.sqrt(jnp.mean(slopes**2))
    write, read = (jnp.clip(rates, 1e-8, 1e3) for rates in (write, read))  # where a norm is zero: not 0, not infinite
    return WriteRates.starting_at(write, steps=write_steps), ReadRates.starting_at(
        rate=read, momentum=initial.momentum, decay=initial.decay, steps=read_steps
    )


def new_model(
    energy: Energy,
    patterns: Float[Array, "n *pattern"],
    *,
    where: Where = own_layers,
    domain: Domain = (0.0, 1.0),
    write_steps: int = 5,
    read_steps: int = 5,
    initial: InitialRates = CALIBRATED,
) -> EBMM:
    """A model to start meta-learning from; `patterns` is a batch like those that it will store."""
    write_rates, read_rates = eqx.filter_jit(initial_rates)(
        energy, where, patterns, domain, write_steps=write_steps, read_steps=read_steps, initial=initial
    )
    return EBMM(
        energy=energy,
        write_rates=write_rates,
        read_rates=read_rates,
        pattern_shape=patterns.shape[1:],
        where=where,
        domain=domain,
    )
