"""The meta-gradient, third order and all, against finite differences of the whole episode."""

import inspect
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from conftest import images, small_conv, small_rnn, strings

from ebmm import WriteRates, reconstruction_loss
from ebmm.files import named_arrays

# What meta-learning learns, told apart by name and, for the write rates, by the term's index.
PARTS = {
    "initial memory": lambda name, array: name.startswith("energy.") and ".memory." in name,
    "static weights": lambda name, array: name.startswith("energy.") and ".memory." not in name,
    "write rates, energy term": lambda name, array: name == "write_rates.raw" and np.eye(3)[0],
    "write rates, gradient term": lambda name, array: name == "write_rates.raw" and np.eye(3)[1],
    "write rates, prior term": lambda name, array: name == "write_rates.raw" and np.eye(3)[2],
    "first read rate": lambda name, array: name == "read_rates.rates.raw_first",
    "read rate logits": lambda name, array: name == "read_rates.rates.logits",
    "first momentum": lambda name, array: name == "read_rates.momenta.raw_first",
    "momentum logits": lambda name, array: name == "read_rates.momenta.logits",
}


def episode(make, seed=1):
    if make is small_rnn:
        patterns = strings(4, 6, seed=seed)
        known = jax.random.bernoulli(jax.random.key(seed + 1), 0.5, patterns.shape)
        return patterns, jnp.where(known, patterns, strings(4, 6, seed=seed + 2)), known
    patterns = images(3, 8, 8, 1, seed=seed)
    return patterns, images(3, 8, 8, 1, seed=seed + 1), None


@pytest.mark.parametrize("make", [small_rnn, small_conv])
def test_the_meta_gradient_equals_finite_differences(float64, rng, make):
    patterns, queries, known = episode(make)
    model = make()
    # Rates at which every term matters, so that no derivative is close to zero.
    values = jnp.broadcast_to(model.write_rates(), model.write_rates.raw.shape) * jnp.array([1.0, 3.0, 100.0])
    model = replace(model, write_rates=WriteRates(jnp.log(jnp.expm1(values))))
    step = jax.jit(jax.value_and_grad(lambda m: reconstruction_loss(m, patterns, queries, known=known)))
    slopes = named_arrays(step(model)[1])
    leaves, treedef = jax.tree.flatten(model)
    names = list(named_arrays(model))
    for part, chosen in PARTS.items():
        masks = [chosen(name, leaf) for name, leaf in zip(names, leaves, strict=True)]
        assert any(np.any(mask) for mask in masks), part
        direction = [rng.normal(size=leaf.shape) * mask for leaf, mask in zip(leaves, masks, strict=True)]
        length = np.sqrt(sum(np.sum(d**2) for d in direction))

        def along(distance, direction=direction, length=length):
            moved = [leaf + distance * d / length for leaf, d in zip(leaves, direction, strict=True)]
            return float(step(treedef.unflatten(moved))[0])

        want = oracles.directional(along, 0.0, 1.0, step=1e-4)
        got = sum(np.sum(slopes[name] * d) for name, d in zip(names, direction, strict=True)) / length
        assert abs(want) > 1e-6, f"{part}: the test says nothing where the derivative vanishes"
        assert abs(got - want) <= 1e-5 * abs(want), f"{part}: {got} against {want}"


def test_the_loss_sums_over_iterates_and_averages_over_patterns(float64):
    model = small_rnn()
    patterns, queries, known = episode(small_rnn)
    trajectory = np.asarray(model.read(model.write(patterns), queries, known=known).trajectory)
    want = sum(
        np.mean([np.sum((x - y) ** 2) for x, y in zip(patterns, iterate, strict=True)]) for iterate in trajectory
    )
    np.testing.assert_allclose(reconstruction_loss(model, patterns, queries, known=known), want, rtol=1e-12)


def test_the_loss_of_several_copies_is_the_mean_of_theirs(float64):
    model = small_rnn()
    patterns, queries, known = episode(small_rnn)
    loss = jax.jit(lambda queries, known: reconstruction_loss(model, patterns, queries, known=known))
    copies = [(queries, known), (jnp.where(known, -queries, patterns), ~known)]
    both = loss(*(jnp.concatenate(pair) for pair in zip(*copies, strict=True)))
    np.testing.assert_allclose(both, np.mean([loss(*copy) for copy in copies]), rtol=1e-12)


def test_vmap_over_episodes_equals_a_loop(float64):
    model = small_rnn()
    episodes = [episode(small_rnn, seed=10 * s) for s in range(3)]
    patterns, queries, known = (jnp.stack(column) for column in zip(*episodes, strict=True))

    def step(patterns, queries, known):
        return jax.value_and_grad(lambda m: reconstruction_loss(m, patterns, queries, known=known))(model)

    together = jax.jit(jax.vmap(step))(patterns, queries, known)
    one_by_one = [jax.jit(step)(*e) for e in episodes]
    for index, alone in enumerate(one_by_one):
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[index], b, rtol=1e-9, atol=1e-12)


def test_a_query_for_each_pattern_is_asked_for():
    """Without the type checks of the tests, as users run it."""
    with pytest.raises(ValueError, match=r"queries have shape \(1, 6\); expected \(4, 6\)"):
        inspect.unwrap(reconstruction_loss)(small_rnn(), strings(4, 6), strings(1, 6))
    with pytest.raises(ValueError, match=r"queries have shape \(6, 6\); expected \(4, 6\), .* or several copies"):
        inspect.unwrap(reconstruction_loss)(small_rnn(), strings(4, 6), strings(6, 6))
