"""Patterns unlike those of training are written with shorter steps where the learned ones go too far."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import strings

import ebmm
from ebmm.baselines import Hopfield
from ebmm.careful import LENGTHS, carefully
from ebmm.fewer import with_steps


class Bowl(eqx.Module):
    """½ ‖x − θ‖², of which one step of length 1 stores a pattern: any longer one goes too far."""

    memory: jax.Array

    def __call__(self, x):
        return 0.5 * jnp.sum((x - self.memory) ** 2)


def written_by(rate):
    """A model whose one write step is so long, and what it stores of a string."""
    initial = ebmm.InitialRates(energy=rate, gradient=1e-8, prior=1e-8, relative=False)
    model = ebmm.new_model(
        Bowl(jnp.zeros(6)),
        strings(1, 6),
        where=lambda e: (e.memory,),
        domain=(-1.0, 1.0),
        write_steps=1,
        initial=initial,
    )
    return model, strings(1, 6, seed=1)


@pytest.mark.parametrize(("rate", "length"), [(0.9, 1.0), (1.25, 0.8), (2.0, 0.5), (20.0, 0.35)])
def test_the_length_of_the_lowest_energy_is_kept(rate, length):
    """In closed form: after a step of length r, the energy is ½ (1 − r)² ‖x‖²."""
    model, pattern = written_by(rate)
    (state,) = carefully(model).write(pattern)
    np.testing.assert_allclose(state, length * rate * pattern[0], rtol=1e-5)
    best = min(LENGTHS, key=lambda each: abs(1 - each * rate))
    assert best == length


def test_what_is_not_finite_is_never_kept(rnn, monkeypatch):
    monkeypatch.setattr("ebmm.careful.LENGTHS", (np.inf, 1.0, 0.5))
    states = carefully(rnn).write(strings(4, 6))
    assert all(np.isfinite(array).all() for array in jax.tree.leaves(states))


def test_a_memory_is_written_with_care_when_told_so():
    model, pattern = written_by(2.0)
    plain, careful = (ebmm.Memory(model, "bowl").write(pattern, careful=careful) for careful in (False, True))
    assert float(careful.energy(pattern)[0]) == pytest.approx(0, abs=1e-6)
    assert float(plain.energy(pattern)[0]) == pytest.approx(3.0, rel=1e-5)
    expected = with_steps(model, 0.5).write(pattern)
    np.testing.assert_allclose(careful.state[0], expected[0], rtol=1e-6)
    out = careful.read(pattern)
    np.testing.assert_allclose(out.patterns, pattern, atol=1e-6)


def test_it_is_the_same_memory_in_all_but_writing(rnn):
    careful, queries = carefully(rnn), strings(4, 6, seed=2)
    assert (careful.pattern_shape, careful.domain, careful.memory_size) == (
        rnn.pattern_shape,
        rnn.domain,
        rnn.memory_size,
    )
    state = rnn.write(strings(4, 6))
    np.testing.assert_array_equal(careful.read(state, queries).patterns, rnn.read(state, queries).patterns)
    np.testing.assert_array_equal(careful.energies(state, queries), rnn.energies(state, queries))


def test_other_systems_have_no_steps_to_choose():
    model = Hopfield((8,))
    assert carefully(model) is model
