"""Modern Hopfield networks: three energies over patterns stored as they are."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import images, strings

from ebmm.baselines.modern_hopfield import ENERGIES, ModernHopfield


@eqx.filter_jit
def recall(model, stored, queries, known=None):
    return model.read(model.write(stored), queries, known=known)


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


@pytest.mark.parametrize("energy", ["softmax", "distance"])
def test_one_step_is_the_published_update(energy):
    stored, queries = np.asarray(images(5, 2, 3, 1)), np.asarray(images(4, 2, 3, 1, seed=1))
    model = ModernHopfield((2, 3, 1), patterns=5, energy=energy, beta=0.7, steps=1)
    out = recall(model, jnp.asarray(stored), jnp.asarray(queries))
    slots = 2 * stored.reshape(5, 6) - 1
    for recalled, query in zip(out.patterns, 2 * queries.reshape(4, 6) - 1, strict=True):
        lengths = (slots**2).sum(1) / 2 if energy == "distance" else 0
        expected = slots.T @ softmax(0.7 * (slots @ query - lengths))
        np.testing.assert_allclose(2 * recalled.reshape(-1) - 1, expected, atol=1e-6)


def test_the_softmax_energy_is_the_published_one():
    slots, pattern = np.asarray(strings(3, 6)), np.asarray(images(1, 6, seed=1))
    model = ModernHopfield((6,), patterns=3, domain=(-1.0, 1.0), beta=0.5)
    expected = -np.log(np.exp(0.5 * slots @ pattern[0]).sum()) / 0.5 + (pattern**2).sum() / 2
    np.testing.assert_allclose(
        model.energies(model.write(jnp.asarray(slots)), jnp.asarray(pattern)), [expected], rtol=1e-5
    )


def test_one_sweep_is_the_published_bit_update():
    """Krotov and Hopfield's rule written out: F of both signs of a bit, with all other bits as they are."""
    slots, query = np.asarray(strings(4, 9), np.float64), np.asarray(strings(1, 9, seed=1), np.float64)[0]

    def steep(s):
        return max(s, 0.0) ** 3

    expected = query.copy()
    for bit in range(9):
        others = np.delete(slots, bit, axis=1) @ np.delete(query, bit)
        gain = sum(steep(o + s[bit]) - steep(o - s[bit]) for o, s in zip(others, slots, strict=True))
        expected[bit] = np.sign(gain) if gain else query[bit]
    model = ModernHopfield(
        (9,), patterns=4, domain=(-1.0, 1.0), energy="polynomial", degree=3, order="synchronous", steps=1
    )
    out = recall(model, strings(4, 9), strings(1, 9, seed=1))
    np.testing.assert_array_equal(out.patterns[0], expected)


@pytest.mark.parametrize("settings", [{"beta": 0.05}, {"energy": "distance", "beta": 0.05}, {"energy": "polynomial"}])
def test_a_read_never_climbs(settings):
    model = ModernHopfield((16,), patterns=6, domain=(-1.0, 1.0), degree=2, steps=6, **settings)
    known = jax.random.bernoulli(jax.random.key(3), 0.3, (8, 16))
    energies = np.asarray(recall(model, strings(6, 16), strings(8, 16, seed=1), known=known).energies)
    assert energies.shape == (7, 8)
    assert np.all(np.diff(energies, axis=0) <= 1e-5)
    assert energies[-1].mean() < energies[0].mean() - 0.01


@pytest.mark.parametrize("energy", ENERGIES)
def test_damaged_patterns_are_recalled_exactly(energy):
    """Six strings of 32 bits, six of them turned over: far more than a Hopfield network of 32 bits could hold."""
    stored = strings(6, 32)
    damaged = stored.at[:, :6].multiply(-1)
    model = ModernHopfield((32,), patterns=8, domain=(-1.0, 1.0), energy=energy)
    np.testing.assert_allclose(recall(model, stored, damaged).patterns, stored, atol=1e-4)


def test_patterns_of_unequal_length_need_the_distance():
    """A faint pattern next to a strong one: the dot product recalls the strong one."""
    stored = jnp.array([[0.2, 0.2, 0.2, 0.2], [1.0, 1.0, 1.0, -1.0]])
    for energy, recalled in (("softmax", 1), ("distance", 0)):
        model = ModernHopfield((4,), patterns=2, domain=None, energy=energy, beta=50.0)
        np.testing.assert_allclose(recall(model, stored, stored[:1]).patterns[0], stored[recalled], atol=1e-3)


def test_empty_slots_are_never_recalled():
    stored = strings(2, 8)
    full, spare = (ModernHopfield((8,), patterns=n, domain=(-1.0, 1.0), beta=0.1) for n in (2, 5))
    first, second = (recall(model, stored, strings(3, 8, seed=1)) for model in (full, spare))
    np.testing.assert_allclose(first.trajectory, second.trajectory, atol=1e-6)
    np.testing.assert_allclose(first.energies, second.energies, atol=1e-5)
    assert np.isfinite(spare.read(spare.initial_state, stored).patterns).all()


@pytest.mark.parametrize("energy", ENERGIES)
def test_known_dimensions_are_clamped(energy):
    stored, queries = strings(4, 12), strings(4, 12, seed=1)
    known = jax.random.bernoulli(jax.random.key(3), 0.5, queries.shape)
    model = ModernHopfield((12,), patterns=4, domain=(-1.0, 1.0), energy=energy)
    out = recall(model, stored, queries, known=known)
    assert np.all(np.asarray(out.trajectory == queries)[:, np.asarray(known)])
    assert np.any(np.asarray(out.patterns != queries))


def test_memory_is_the_floats_that_writing_changes():
    model = ModernHopfield((3, 4, 2), patterns=5)
    state = model.write(images(5, 3, 4, 2))
    assert model.memory_size == 5 * 24 == np.sum(np.asarray(state != model.initial_state))
    with pytest.raises(ValueError, match="got 6 patterns.*room for 5"):
        model.write(images(6, 3, 4, 2))


@pytest.mark.parametrize("energy", ENERGIES)
def test_jit_vmap_and_gradient(energy):
    model = ModernHopfield((4, 4, 1), patterns=3, energy=energy, steps=2)
    episodes = images(2, 3, 4, 4, 1)
    together = jax.jit(jax.vmap(lambda patterns: model.read(model.write(patterns), patterns).patterns))(episodes)
    np.testing.assert_allclose(together[1], model.read(model.write(episodes[1]), episodes[1]).patterns, atol=1e-5)
    slopes = jax.grad(lambda patterns: model.loss(patterns, episodes[0])[0])(episodes[1])
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"pattern_shape": ()},
        {"patterns": 0},
        {"steps": 0},
        {"beta": 0.0},
        {"energy": "cubic"},
        {"order": "random"},
        {"domain": None, "energy": "polynomial"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        ModernHopfield(**({"pattern_shape": (8,)} | wrong))
