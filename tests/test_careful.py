"""What was written is read from itself, and written with steps of another length where that fails."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import strings

import ebmm
from ebmm.baselines import Hopfield
from ebmm.careful import ENOUGH, LENGTHS, carefully, error_from_themselves
from ebmm.data.binary import strings as strings_of
from ebmm.data.distortions import ResampledBits
from ebmm.data.episodes import Episodes
from ebmm.evaluation.errors import measure_errors
from ebmm.fewer import for_fewer, with_steps


class Bowl(eqx.Module):
    """½ ‖x − θ‖², of which one step of length 1 stores a pattern: any other one goes too far, or not far enough."""

    memory: jax.Array

    def __call__(self, x):
        return 0.5 * jnp.sum((x - self.memory) ** 2)


def written_by(rate):
    """A model whose one write step is so long, and a pattern inside its domain to store."""
    initial = ebmm.InitialRates(energy=rate, gradient=1e-8, prior=1e-8, relative=False)
    model = ebmm.new_model(
        Bowl(jnp.zeros(6)),
        strings(1, 6),
        where=lambda e: (e.memory,),
        domain=(-1.0, 1.0),
        write_steps=1,
        initial=initial,
    )
    return model, 0.5 * strings(1, 6, seed=1)


def error_by_hand(model, pattern, length, rate):
    """After a step of that length the bowl's middle is at `length × rate` of the pattern, and a read goes there."""
    bottom = length * rate * np.asarray(pattern)
    here, velocity, squares = np.asarray(pattern), 0.0, []
    steps, momenta = np.asarray(model.read_rates.rates()), np.asarray(model.read_rates.momenta())
    for step, momentum in zip(steps, momenta, strict=True):
        ahead = np.clip(here + momentum * velocity, -1, 1)
        velocity = momentum * velocity - step * (ahead - bottom)
        here = np.clip(here + velocity, -1, 1)
        squares.append(np.mean((here - pattern) ** 2))
    return np.sqrt(np.mean(squares))  # half the domain is 1


def length_by_hand(model, pattern, rate):
    errors = [error_by_hand(model, pattern, length, rate) for length in LENGTHS]
    good = [length for length, error in zip(LENGTHS, errors, strict=True) if error <= ENOUGH]
    return good[0] if good else LENGTHS[int(np.argmin(errors))]


@pytest.mark.parametrize(("rate", "length"), [(1.0, 1.0), (0.93, 1.08), (0.7, 1.25), (1.68, 0.6), (3.0, 0.3)])
def test_the_length_is_kept_that_gives_the_pattern_back(rate, length):
    model, pattern = written_by(rate)
    assert length_by_hand(model, pattern, rate) == length
    (state,) = carefully(model).write(pattern)
    np.testing.assert_allclose(state, length * rate * pattern[0], rtol=1e-5)
    error = error_from_themselves(model, (state,), pattern)
    np.testing.assert_allclose(error, error_by_hand(model, pattern, length, rate), rtol=1e-4, atol=1e-7)


def test_what_is_not_finite_is_never_kept(rnn, monkeypatch):
    monkeypatch.setattr("ebmm.careful.LENGTHS", (np.inf, np.inf, 0.5))
    states = carefully(rnn).write(strings(4, 6))
    for one, other in zip(*map(jax.tree.leaves, (states, with_steps(rnn, 0.5).write(strings(4, 6)))), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    monkeypatch.setattr("ebmm.careful.LENGTHS", (np.inf,))
    with pytest.raises(ValueError, match="not finite"):
        ebmm.Memory(rnn, "small").write(strings(4, 6), careful=True)


def test_a_memory_is_written_with_care_when_told_so():
    model, pattern = written_by(1.68)
    plain, careful = (ebmm.Memory(model, "bowl").write(pattern, careful=careful) for careful in (False, True))
    expected = [with_steps(model, length).write(pattern)[0] for length in (1.0, 0.6)]
    np.testing.assert_allclose(plain.state[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(careful.state[0], expected[1], rtol=1e-6)
    np.testing.assert_allclose(careful.read(pattern).patterns, pattern, atol=0.01)


def test_another_number_of_patterns_than_in_training_is_written_with_care(rnn):
    """Unless one says otherwise; as many as in training are written as learned."""
    memory = ebmm.Memory(rnn, "small", trained={"patterns": 4})
    assert memory.model_for(4) is rnn
    assert ebmm.Memory(rnn, "small").model_for(3) is rnn  # nothing is known of its training
    for patterns in (3, 5):
        plain = for_fewer(rnn, patterns, 4)
        assert eqx.tree_equal(memory.model_for(patterns), carefully(plain))
        assert eqx.tree_equal(memory.model_for(patterns, careful=False), plain)
        assert memory.model_for(patterns, as_learned=True) is rnn
        assert eqx.tree_equal(memory.model_for(patterns, as_learned=True, careful=True), carefully(rnn))


def test_the_bundled_model_of_64_strings_holds_a_few():
    """Written unchecked, one batch of some five is lost altogether."""
    memory = ebmm.Memory.from_pretrained("binary-rnn")
    episodes = Episodes(strings_of(128), ResampledBits(0.5), 4, reveal=True)

    def wrong(careful):
        model = memory.model_for(4, careful=careful)
        return measure_errors(model, episodes, key=jax.random.key(0), batches=16).read

    assert wrong(True).max() < 2
    assert wrong(False).max() > 10


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
