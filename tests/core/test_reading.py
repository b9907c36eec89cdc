"""Projected Nesterov descent against NumPy, and the promises of clamping and of the domain."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, small_conv, small_rnn, strings

from ebmm import ReadRates, read
from ebmm.core.energy import with_layers


def quadratic(rng, dimensions=5):
    root = rng.normal(size=(dimensions, dimensions))
    return root @ root.T / dimensions, rng.normal(size=dimensions)


def numpy_read(slope, query, rates, momenta, domain, known):
    def project(x):
        return np.where(known, query, np.clip(x, *domain))

    x, v, out = query, np.zeros_like(query), []
    for rate, momentum in zip(rates, momenta, strict=True):
        v = np.where(known, 0, momentum * v - rate * slope(project(x + momentum * v)))
        x = project(x + v)
        out.append(x)
    return np.stack(out)


@pytest.mark.parametrize("domain", [(0.0, 1.0), (-1.0, 1.0), None])
@pytest.mark.parametrize("clamp", [False, True])
def test_read_equals_numpy(float64, rng, domain, clamp):
    matrix, centre = quadratic(rng)
    query = rng.uniform(*(domain or (-1, 1)), size=5)
    known = np.array([True, False, False, True, False]) if clamp else None
    rates = ReadRates.starting_at(rate=0.4, momentum=0.7, decay=0.9, steps=6)

    def energy(x):
        return 0.5 * (x - centre) @ matrix @ (x - centre)

    trajectory, energies = read(
        energy, rates, jnp.asarray(query), domain=domain, known=None if known is None else jnp.asarray(known)
    )
    want = numpy_read(
        lambda x: matrix @ (x - centre),
        query,
        np.asarray(rates.rates()),
        np.asarray(rates.momenta()),
        domain or (-np.inf, np.inf),
        np.zeros(5, bool) if known is None else known,
    )
    np.testing.assert_allclose(trajectory, want, atol=1e-12)
    points = [query, *want]
    np.testing.assert_allclose(energies, [0.5 * (x - centre) @ matrix @ (x - centre) for x in points], atol=1e-12)


def test_without_momentum_it_is_gradient_descent_in_closed_form(float64, rng):
    matrix, centre = quadratic(rng)
    query = rng.normal(size=5)
    rates = ReadRates.starting_at(rate=0.3, momentum=0.0, decay=1.0, steps=4)  # a constant rate
    trajectory, _ = read(lambda x: 0.5 * (x - centre) @ matrix @ (x - centre), rates, jnp.asarray(query))
    for k, got in enumerate(trajectory, start=1):
        step = np.linalg.matrix_power(np.eye(5) - 0.3 * matrix, k)
        np.testing.assert_allclose(got, centre + step @ (query - centre), atol=1e-12)


def test_known_dimensions_hold_wherever_the_energy_is_asked():
    """Also at the look-ahead point, which momentum moves."""
    asked = []

    def energy(x):
        jax.debug.callback(lambda point: asked.append(np.asarray(point)), x)
        return jnp.sum((x - 3.0) ** 2)

    query = jnp.array([0.25, 0.5, 0.75])
    known = jnp.array([True, False, True])
    rates = ReadRates.starting_at(rate=0.05, momentum=0.9, decay=0.99, steps=4)
    trajectory, _ = read(energy, rates, query, domain=(-1.0, 1.0), known=known)
    jax.effects_barrier()
    assert len(asked) >= 4 + 5  # a look-ahead point for each step, then the query and its iterates
    for point in [*asked, *trajectory]:
        np.testing.assert_array_equal(
            np.asarray(point)[..., [0, 2]], np.broadcast_to([0.25, 0.75], (*point.shape[:-1], 2))
        )
    assert trajectory[-1, 1] == 1.0  # the free one went to the edge of the domain and stayed inside


def test_clamping_is_reading_the_free_dimensions_alone(float64, rng):
    """Whatever the energy makes of the clamped ones, momentum included."""
    matrix, centre = quadratic(rng)
    query = rng.normal(size=5)
    free = np.array([1, 3])
    rates = ReadRates.starting_at(rate=0.2, momentum=0.8, decay=0.9, steps=5)

    def energy(x):
        return 0.5 * (x - centre) @ matrix @ (x - centre)

    clamped, _ = read(energy, rates, jnp.asarray(query), known=jnp.ones(5, bool).at[free].set(False))
    alone, _ = read(lambda y: energy(jnp.asarray(query).at[free].set(y)), rates, jnp.asarray(query[free]))
    np.testing.assert_allclose(clamped[:, free], alone, atol=1e-12)


@pytest.mark.parametrize("make", [small_rnn, small_conv])
def test_float32_agrees_with_float64(make):
    """Over the whole trajectory, and without a domain whose edges would hide differences."""

    def recalled(model, patterns, queries):
        return model.read(model.write(patterns), queries).trajectory

    with jax.enable_x64(True):
        model = replace(make(), domain=None)
        patterns, queries = (images(3, *model.pattern_shape, seed=seed) for seed in (0, 1))
        want = jax.jit(recalled)(model, patterns, queries)
        assert want.dtype == jnp.float64
    low = [jax.tree.map(lambda a: np.asarray(a, np.float32), x) for x in (model, patterns, queries)]
    got = jax.jit(recalled)(*low)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, want, atol=1e-3)
    assert np.abs(want - queries).max() > 0.05


def test_reading_a_written_energy_uses_the_written_layers():
    model = small_rnn()
    state = model.write(strings(4, 6))
    queries = strings(3, 6, seed=1)
    energy = with_layers(model.energy, model.where, state)
    trajectory, energies = read(energy, model.read_rates, queries[1], domain=model.domain)
    out = model.read(state, queries)
    np.testing.assert_allclose(out.trajectory[:, 1], trajectory, atol=1e-6)
    np.testing.assert_allclose(out.energies[:, 1], energies, atol=1e-6)
    np.testing.assert_array_equal(out.patterns, out.trajectory[-1])
