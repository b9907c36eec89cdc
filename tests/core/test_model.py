"""What makes a model, what is refused, and properties that hold for every shape."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_conv, small_rnn, strings
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmm import EBMM, new_model


class AnyShape(eqx.Module):
    """An energy for patterns of any shape."""

    layer: eqx.nn.Linear
    readout: jax.Array

    def __init__(self, shape, dtype=jnp.float32, key=None):
        self.layer = eqx.nn.Linear(int(np.prod(shape)), 4, dtype=dtype, key=jax.random.key(0))
        self.readout = jnp.linspace(-1, 1, 4, dtype=dtype)

    @property
    def writable(self):
        return self.layer

    def __call__(self, x):
        return self.readout @ jnp.tanh(self.layer(jnp.ravel(x)))


@settings(deadline=None, max_examples=8)
@given(
    shape=st.sampled_from([(), (1,), (3,), (1, 1), (2, 3, 1)]),
    patterns=st.sampled_from([1, 3]),
    queries=st.sampled_from([1, 2]),
    double=st.booleans(),
    domain=st.sampled_from([(0.0, 1.0), (-1.0, 1.0), None]),
    seed=st.integers(0, 99),
)
def test_shapes_dtypes_and_promises_for_any_pattern(shape, patterns, queries, double, domain, seed):
    dtype = jnp.float64 if double else jnp.float32
    with jax.enable_x64(double), jax.disable_jit():
        keys = jax.random.split(jax.random.key(seed), 3)
        low, high = domain or (-2.0, 2.0)
        stored = jax.random.uniform(keys[0], (patterns, *shape), dtype, low, high)
        asked = jax.random.uniform(keys[1], (queries, *shape), dtype, low, high)
        known = jax.random.bernoulli(keys[2], 0.5, asked.shape)
        model = new_model(AnyShape(shape, dtype), stored, domain=domain, write_steps=2, read_steps=2)
        state = model.write(stored)
        out = model.read(state, asked, known=known)

    assert jax.tree.structure(state) == jax.tree.structure(model.initial_state)
    assert {leaf.dtype for leaf in jax.tree.leaves((state, out))} == {jnp.dtype(dtype)}
    assert out.patterns.shape == asked.shape
    assert out.trajectory.shape == (2, *asked.shape)
    assert out.energies.shape == (3, queries)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state, out)))
    np.testing.assert_array_equal(
        np.where(known, out.trajectory, 0), np.broadcast_to(np.where(known, asked, 0), out.trajectory.shape)
    )
    if domain:
        assert (np.asarray(out.trajectory) >= low).all()
        assert (np.asarray(out.trajectory) <= high).all()


def test_each_named_entry_is_a_layer_with_its_own_rates():
    model = new_model(mlp(), strings(2, 3), where=lambda e: (e.layers[0], e.layers[1].bias), domain=(-1, 1))
    assert model.write_rates.raw.shape == (5, 2, 3)
    assert model.memory_size == 3 * 4 + 4 + 1


def test_the_state_is_what_writing_may_change():
    model = small_conv()
    assert model.memory_size == sum(a.size for a in jax.tree.leaves(model.initial_state)) == 9 * 3 + 1


def test_energies_of_a_state_equal_those_of_the_readout():
    model = small_rnn()
    state = model.write(strings(4, 6))
    queries = strings(2, 6, seed=3)
    np.testing.assert_allclose(model.energies(state, queries), model.read(state, queries).energies[0], rtol=1e-6)


def mlp(out_size="scalar", dtype=None):
    return eqx.nn.MLP(3, out_size, 4, 1, activation=jnp.tanh, dtype=dtype, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("energy", "where", "complaint"),
    [
        (mlp(), lambda e: (), "names no layer"),
        (mlp(), lambda e: (e.activation,), "it holds none"),
        (mlp(dtype=jnp.bfloat16), lambda e: (e.layers[0],), "it holds bfloat16"),
        (mlp(out_size=2), lambda e: (e.layers[0],), r"gave an array of shape \(2,\); an energy is one number"),
        (lambda x: (x, x), lambda e: jnp.ones(3), "each of them once"),
        (mlp(), lambda e: (e.layers[0], e.layers[0]), "each of them once"),
        (mlp(), lambda e: (e.layers[0], e.layers[0].weight), "each of them once"),
        (mlp(), lambda e: e.layers[7], "each of them once"),
        (
            eqx.nn.MLP(4, "scalar", 4, 1, key=jax.random.key(0)),
            lambda e: e.layers[0],
            r"take a pattern of shape \(3,\)",
        ),
    ],
    ids=["none", "no array", "bfloat16", "two numbers", "no layer", "twice", "overlapping", "missing", "wrong shape"],
)
def test_what_is_no_energy_is_refused(energy, where, complaint):
    like = small_rnn()
    with pytest.raises(ValueError, match=complaint):
        EBMM(energy, like.write_rates, like.read_rates, (3,), where)


@pytest.mark.parametrize("domain", [(1.0, -1.0), (0.0, np.inf), "ab", 3, (0.0, 0.5, 1.0)])
def test_what_is_no_domain_is_refused(domain):
    with pytest.raises(ValueError, match="expected None or two finite numbers"):
        replace(small_rnn(), domain=domain)


def test_a_domain_in_any_numbers_is_two_floats():
    assert replace(small_rnn(), domain=np.array([-1, 1])).domain == (-1.0, 1.0)


def test_an_energy_without_named_layers_asks_for_them():
    with pytest.raises(ValueError, match="MLP names no layers to write; pass `where="):
        new_model(mlp(), strings(2, 3))


def test_rates_for_another_number_of_layers_are_refused():
    like = small_rnn()
    with pytest.raises(ValueError, match="names 2 layers; the write rates are for 1"):
        EBMM(mlp(), like.write_rates, like.read_rates, (3,), lambda e: (e.layers[0], e.layers[1]))
