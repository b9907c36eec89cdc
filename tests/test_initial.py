"""Where meta-learning starts: the paper's rates, or rates fitted to the energy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, small_conv, small_rnn, strings

from ebmm import CALIBRATED, PAPER, InitialRates, new_model
from ebmm.core.writing import writing_gradients
from ebmm.energies import GatedRNN, ResNetConv


def norm(tree):
    return np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(tree)))


@pytest.mark.parametrize(("make", "shape", "half_range"), [(small_rnn, (4, 6), 1.0), (small_conv, (3, 8, 8, 1), 0.5)])
def test_fitted_rates_move_layers_and_patterns_by_the_chosen_shares(float64, make, shape, half_range):
    model = make()
    patterns = strings(*shape) if make is small_rnn else images(*shape)
    gradients = writing_gradients(model.energy, model.where, model.initial_state, patterns)
    rates = model.write_rates()
    for term, share in ((0, CALIBRATED.energy), (1, CALIBRATED.gradient)):
        for index, (layer, slope) in enumerate(zip(model.initial_state, gradients[term], strict=True)):
            moved = sum(rates[:, index, term]) * norm(slope)
            np.testing.assert_allclose(moved / norm(layer), share, rtol=1e-6)
    np.testing.assert_allclose(rates[..., 2], CALIBRATED.prior, rtol=1e-6)
    slopes = jax.vmap(jax.grad(model.energy))(patterns)
    first_step = model.read_rates.rates()[0] * np.sqrt(np.mean(slopes**2))
    np.testing.assert_allclose(first_step, CALIBRATED.read * half_range, rtol=1e-6)
    np.testing.assert_allclose(model.read_rates.momenta()[0], CALIBRATED.momentum, rtol=1e-6)


def test_a_blank_image_does_not_spoil_the_rates():
    """Every layer norm lifts what is constant by 1 / √1e-5, so that its slopes are steep beyond measure."""
    energy = ResNetConv(image_shape=(8, 8, 1), memory_width=1, channels=2, hidden=4, dense=8, key=jax.random.key(0))
    patterns = jnp.asarray(images(5, 8, 8, 1))
    blank = patterns.at[2].set(0.0)
    steep = jnp.linalg.norm(jax.grad(energy)(blank[2]))
    assert not steep < 1000 * jnp.linalg.norm(jax.grad(energy)(blank[0]))
    usual, found = (new_model(energy, each) for each in (patterns, blank))
    np.testing.assert_allclose(jnp.log(found.read_rates.rates()), jnp.log(usual.read_rates.rates()), atol=1)
    np.testing.assert_allclose(jnp.log(found.write_rates()), jnp.log(usual.write_rates()), atol=2)


def test_without_a_domain_the_patterns_give_the_range(float64):
    energy = eqx.nn.Linear(3, "scalar", key=jax.random.key(0))
    patterns = 10 * strings(4, 3)
    model = new_model(energy, patterns, where=lambda e: e, domain=None)
    first_step = model.read_rates.rates()[0] * np.sqrt(np.mean(energy.weight**2))
    np.testing.assert_allclose(first_step, CALIBRATED.read * np.std(patterns), rtol=1e-6)


def test_the_papers_preset():
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, key=jax.random.key(0))
    model = new_model(energy, jnp.ones((2, 6)), initial=PAPER)
    assert model.write_rates.raw.shape == (5, 1, 3)
    assert model.read_rates.rates().shape == (5,)
    np.testing.assert_allclose(model.write_rates(), 1e-4, rtol=1e-3)


def test_initial_values_are_arguments():
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, key=jax.random.key(0))
    initial = InitialRates(energy=0.5, gradient=1e-5, prior=0.01, read=2.0, momentum=0.9, decay=0.5, relative=False)
    model = new_model(energy, jnp.ones((2, 6)), write_steps=3, read_steps=2, initial=initial)
    np.testing.assert_allclose(model.write_rates(), np.broadcast_to([0.5, 1e-5, 0.01], (3, 1, 3)), rtol=1e-3)
    np.testing.assert_allclose(model.read_rates.rates(), [2.0, 1.0], rtol=1e-5)
    np.testing.assert_allclose(model.read_rates.momenta(), [0.9, 0.45], rtol=1e-5)


def test_without_the_gradient_term_the_other_rates_are_the_same(float64):
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, hops=2, key=jax.random.key(0))
    patterns = strings(4, 6)
    with_it, without = (
        new_model(energy, patterns, domain=(-1.0, 1.0), write_steps=2, gradient_term=term) for term in (True, False)
    )
    assert (with_it.gradient_term, without.gradient_term) == (True, False)
    used = np.array([0, 2])
    np.testing.assert_allclose(without.write_rates()[..., used], with_it.write_rates()[..., used], rtol=1e-9)
    np.testing.assert_allclose(without.read_rates.rates(), with_it.read_rates.rates(), rtol=1e-9)


def test_layers_that_start_at_zero_or_have_no_slope_get_useful_rates(float64):
    network = eqx.nn.MLP(3, "scalar", 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    zero = eqx.tree_at(lambda e: [layer.bias for layer in e.layers], network, [jnp.zeros(4), jnp.zeros(1)])
    layers = lambda e: (e.layers[0].weight, e.layers[0].bias, e.layers[1].bias)  # noqa: E731
    rates = new_model(zero, strings(2, 3), where=layers, domain=(-1, 1)).write_rates()
    assert np.isfinite(rates).all()
    assert (rates > 1e-6).all()
    assert rates[0, 2, 1] == pytest.approx(1e-4, rel=1e-3)  # the last bias does not change the slope in x


def test_bad_input_is_refused_before_anything_is_computed():
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, key=jax.random.key(0))
    for patterns, complaint in (
        (np.full((2, 6), np.nan), "NaN or infinity"),
        (np.full((2, 6), 2.0), "values in"),
        (np.ones((0, 6)), "empty batch"),
        (np.ones(6), r"does not take a pattern of shape \(\)"),
        (np.ones((2, 5)), r"does not take a pattern of shape \(5,\)"),
    ):
        with pytest.raises(ValueError, match=complaint):
            new_model(energy, patterns)
    with pytest.raises(ValueError, match="expected at least one of each"):
        new_model(energy, np.ones((2, 6)), read_steps=0)
    np.testing.assert_allclose(new_model(energy, [[1, 0, 1, 1, 0, 0]]).pattern_shape, (6,))


@pytest.mark.parametrize("wrong", [{"momentum": 0.0}, {"decay": 1.0}, {"read": -1.0}, {"energy": np.inf}])
def test_first_values_from_which_nothing_is_learned_are_refused(wrong):
    with pytest.raises(ValueError, match="expected a"):
        InitialRates(**wrong)
