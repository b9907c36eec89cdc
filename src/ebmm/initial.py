"""Where meta-learning starts: the first values of all rates, as the paper gives them or fitted to an energy."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from .checks import as_patterns, check_energy
from .core.energy import Energy, Where, writable_layers
from .core.model import EBMM, own_layers
from .core.rates import ReadRates, WriteRates
from .core.writing import energy_gradient, writing_gradients
from .interface import Domain, as_domain


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

    def __post_init__(self):
        for name in ("energy", "gradient", "read", "prior", "momentum"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: got {getattr(self, name)}; expected a positive number, however small.")
        if not 0 < self.decay < 1:
            raise ValueError(f"decay: got {self.decay}; expected a number between 0 and 1.")


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
    gradient_term: bool = True,
) -> tuple[WriteRates, ReadRates]:
    """The first rates for this energy, fitted on the patterns where `initial.relative` asks for it."""
    layers = writable_layers(energy, where)
    write = jnp.tile(jnp.array([initial.energy, initial.gradient, initial.prior]), (len(layers), 1))
    read = jnp.asarray(initial.read)
    if initial.relative:
        slopes = jax.vmap(jax.grad(energy))(patterns)
        usual = usual_ones(slopes)
        patterns, slopes = patterns[usual], slopes[usual]
        if gradient_term:
            gradients = writing_gradients(energy, where, layers, patterns)
        else:
            of_energy = energy_gradient(energy, where, layers, patterns)
            gradients = of_energy, of_energy  # the second only fills a column of rates that is not used
        norms = jnp.array([[optax.tree.norm(layer) for layer in trees] for trees in (layers, *gradients)])
        # A layer that starts at zero is measured by the size that the others would give it.
        sizes = jnp.array([sum(array.size for array in jax.tree.leaves(layer)) for layer in layers])
        typical = jnp.sqrt(sizes * jnp.sum(norms[0] ** 2) / jnp.sum(sizes))
        moved = jnp.where(norms[0] > 0, norms[0], typical)
        fitted = write[:, :2] * (moved / (write_steps * norms[1:])).T
        write = write.at[:, :2].set(jnp.where(norms[1:].T > 0, fitted, 1e-4))
        half_range = jnp.std(patterns) if domain is None else (domain[1] - domain[0]) / 2
        read = read * half_range / jnp.sqrt(jnp.mean(slopes**2))
    write, read = (jnp.clip(rates, 1e-8, 1e3) for rates in (write, read))  # neither 0 nor infinite
    return WriteRates.starting_at(write, steps=write_steps), ReadRates.starting_at(
        rate=read, momentum=initial.momentum, decay=initial.decay, steps=read_steps
    )


STEEP = 1000.0  # slopes of small drawings go up to 13 times their median; that of a blank one was beyond float32


def usual_ones(slopes: Float[Array, "n *pattern"]) -> Int[Array, " n"]:
    """The places of all patterns, those of the steepest, `STEEP` times the median and more, taken by the median's.

    Rates fitted to a batch with one blank image would be too small to learn anything from.
    """
    sizes = jnp.sqrt(jnp.sum(slopes.reshape(len(slopes), -1) ** 2, axis=1))
    middle = jnp.argsort(sizes)[len(sizes) // 2]
    return jnp.where(sizes < STEEP * sizes[middle], jnp.arange(len(sizes)), middle)


def new_model(
    energy: Energy,
    patterns: Any,
    *,
    where: Where = own_layers,
    domain: Any = (0.0, 1.0),
    write_steps: int = 5,
    read_steps: int = 5,
    initial: InitialRates = CALIBRATED,
    gradient_term: bool = True,
) -> EBMM:
    """A model to start meta-learning from; `patterns` is a batch like those that it will store.

    Without its gradient term the writing loss is the energy and the prior.
    """
    if write_steps < 1 or read_steps < 1:
        raise ValueError(f"got {write_steps} write and {read_steps} read steps; expected at least one of each.")
    domain = as_domain(domain)
    pattern_shape = np.shape(patterns)[1:]
    check_energy(energy, where, pattern_shape)
    dtype = jax.tree.leaves(writable_layers(energy, where))[0].dtype
    patterns = jnp.asarray(as_patterns(patterns, pattern_shape, domain, dtype, what="patterns")[0])
    write_rates, read_rates = eqx.filter_jit(initial_rates)(
        energy,
        where,
        patterns,
        domain,
        write_steps=write_steps,
        read_steps=read_steps,
        initial=initial,
        gradient_term=gradient_term,
    )
    return EBMM(
        energy=energy,
        write_rates=write_rates,
        read_rates=read_rates,
        pattern_shape=pattern_shape,
        where=where,
        domain=domain,
        gradient_term=gradient_term,
    )
