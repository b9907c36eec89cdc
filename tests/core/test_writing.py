"""The writing rule against NumPy with finite differences, and what a user may rely on."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from conftest import images, small_conv, small_rnn, strings

from ebmm import WriteRates, new_model, write
from ebmm.core.energy import with_layers
from ebmm.core.writing import writing_gradients
from ebmm.loops import Loop


class TwoLayers(eqx.Module):
    """Small enough for finite differences of finite differences; both layers are writable."""

    first: jax.Array
    second: jax.Array
    readout: jax.Array

    def __init__(self, rng):
        self.first = jnp.asarray(rng.normal(size=(4, 3)))
        self.second = jnp.asarray(rng.normal(size=(2, 4)))
        self.readout = jnp.asarray(rng.normal(size=2))

    def __call__(self, x):
        return self.readout @ jnp.tanh(self.second @ jnp.tanh(self.first @ x))


def where(energy):
    return (energy.first, energy.second)


def numpy_write(first, second, readout, patterns, rates):
    """The writing rule by its definition: θ ← θ − Σ rate · ∇θ term, every derivative a finite difference."""

    def energy(x, first, second):
        return readout @ np.tanh(second @ np.tanh(first @ x))

    def mean_energy(first, second):
        return np.mean([energy(x, first, second) for x in patterns])

    def mean_squared_gradient(first, second):
        return np.mean([np.sum(oracles.gradient(lambda y: energy(y, first, second), x) ** 2) for x in patterns])

    initial = (first, second)
    for by_layer in rates:
        old = (first, second)
        new = []
        for index in range(2):

            def at(term, layer, index=index, old=old):
                return term(layer, old[1]) if index == 0 else term(old[0], layer)

            def distance(layer, index=index):
                return np.sum((layer - initial[index]) ** 2)

            slopes = [
                oracles.gradient(lambda layer, at=at: at(mean_energy, layer), old[index]),
                oracles.gradient(lambda layer, at=at: at(mean_squared_gradient, layer), old[index]),
                oracles.gradient(distance, old[index]),
            ]
            new.append(old[index] - sum(r * s for r, s in zip(by_layer[index], slopes, strict=True)))
        first, second = new
    return first, second


@pytest.mark.parametrize("terms", [(1, 0, 0), (0, 1, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1)])
def test_write_equals_numpy_with_finite_differences(float64, rng, terms):
    energy = TwoLayers(rng)
    patterns = rng.normal(size=(3, 3))
    values = rng.uniform(0.05, 0.2, size=(2, 2, 3)) * np.array(terms)
    expected = numpy_write(*map(np.asarray, (energy.first, energy.second, energy.readout)), patterns, values)
    rates = WriteRates(jnp.log(jnp.expm1(values)))  # log 0 = −∞ is a rate of exactly zero
    written = write(energy, where, rates, jnp.asarray(patterns))
    for got, want, before in zip(written, expected, where(energy), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-8)
        assert np.abs(want - before).max() > 1e-3


def test_without_the_gradient_term_its_rates_do_not_count(float64, rng):
    energy = TwoLayers(rng)
    patterns = rng.normal(size=(3, 3))
    values = rng.uniform(0.05, 0.2, size=(2, 2, 3))
    expected = numpy_write(
        *map(np.asarray, (energy.first, energy.second, energy.readout)), patterns, values * np.array([1, 0, 1])
    )
    rates = WriteRates(jnp.log(jnp.expm1(values)))
    written = write(energy, where, rates, jnp.asarray(patterns), gradient_term=False)
    with_it = write(energy, where, rates, jnp.asarray(patterns))
    for got, want, other in zip(written, expected, with_it, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-8)
        assert np.abs(np.asarray(got - other)).max() > 1e-3


def test_the_prior_alone_does_not_move_a_memory_at_its_start(float64, rng):
    energy = TwoLayers(rng)
    rates = WriteRates(jnp.log(jnp.expm1(jnp.broadcast_to(jnp.array([0.0, 0.0, 0.3]), (3, 2, 3)))))
    for got, before in zip(write(energy, where, rates, strings(4, 3)), where(energy), strict=True):
        np.testing.assert_array_equal(got, before)


@pytest.mark.parametrize(("make", "patterns"), [(small_rnn, (4, 6)), (small_conv, (3, 8, 8, 1))])
def test_forward_over_reverse_equals_the_nested_gradient(float64, make, patterns):
    model = make()
    x = images(*patterns)

    def mean_energy(layers):
        return jnp.mean(jax.vmap(with_layers(model.energy, model.where, layers))(x))

    def mean_squared_gradient(layers):
        slopes = jax.vmap(jax.grad(with_layers(model.energy, model.where, layers)))(x)
        return jnp.sum(slopes**2) / len(x)

    of_energy, of_norm = jax.jit(lambda layers: writing_gradients(model.energy, model.where, layers, x))(
        model.initial_state
    )
    for got, term in ((of_energy, mean_energy), (of_norm, mean_squared_gradient)):
        want = jax.jit(jax.grad(term))(model.initial_state)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_the_order_of_the_patterns_does_not_matter(float64):
    model = small_rnn()
    patterns = strings(5, 6)
    forwards, backwards = (model.write(p) for p in (patterns, patterns[::-1]))
    for a, b in zip(jax.tree.leaves(forwards), jax.tree.leaves(backwards), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_zero_rates_write_nothing(float64):
    model = small_rnn()
    idle = WriteRates(jnp.full_like(model.write_rates.raw, -jnp.inf))
    written = write(model.energy, model.where, idle, strings(4, 6))
    for a, b in zip(jax.tree.leaves(written), jax.tree.leaves(model.initial_state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_the_named_layers_change(float64):
    model = small_conv()
    written = with_layers(model.energy, model.where, model.write(images(3, 8, 8, 1)))
    before, after = (jax.tree_util.tree_leaves_with_path(eqx.filter(e, eqx.is_array)) for e in (model.energy, written))
    changed = [
        jax.tree_util.keystr(path) for (path, a), (_, b) in zip(before, after, strict=True) if not (a == b).all()
    ]
    assert sorted(changed) == [".block.wide.memory.bias", ".block.wide.memory.kernel"]


def test_unrolled_and_rolled_loops_agree(float64):
    model = small_rnn()
    patterns = strings(4, 6)
    rolled, unrolled = (
        write(model.energy, model.where, model.write_rates, patterns, loop=Loop(unroll=unroll))
        for unroll in (False, True)
    )
    for a, b in zip(jax.tree.leaves(rolled), jax.tree.leaves(unrolled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_plain_function_with_parameters_is_an_energy(float64, rng):
    parameters = {"layer": jnp.asarray(rng.normal(size=(4, 3))), "readout": jnp.asarray(rng.normal(size=4))}
    energy = eqx.Partial(lambda p, x: p["readout"] @ jnp.tanh(p["layer"] @ x), parameters)
    model = new_model(energy, strings(2, 3), where=lambda e: e.args[0]["layer"], domain=(-1.0, 1.0), write_steps=2)
    (written,) = model.write(strings(2, 3))
    assert written.shape == (4, 3)
    assert not jnp.allclose(written, parameters["layer"])
    assert model.memory_size == 12
