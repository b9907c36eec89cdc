"""Practising what is to be recalled leaves fewer errors in the same memory."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import strings

import ebmm
from ebmm.baselines import Hopfield
from ebmm.cli.inspect import facts_of_file
from ebmm.data.distortions import ResampledBits
from ebmm.rehearsal import AT_ONCE, MOMENTA, Rehearsed, _part, with_rehearsal


class Bowl(eqx.Module):
    """½ ‖x − θ‖²: a read step of length 1 leads to θ, whatever the query."""

    memory: jax.Array

    def __call__(self, x):
        return 0.5 * jnp.sum((x - self.memory) ** 2)


def bowl(*, write_rate=0.2, start=0.1):
    """One write step that goes a fifth of the way, and one read step that goes nearly all of it."""
    initial = ebmm.InitialRates(energy=write_rate, gradient=1e-8, prior=1e-8, relative=False)
    model = ebmm.new_model(
        Bowl(jnp.full(6, start)),
        strings(1, 6),
        where=lambda e: (e.memory,),
        domain=(-1.0, 1.0),
        write_steps=1,
        read_steps=1,
        initial=initial,
    )
    rates = ebmm.ReadRates.starting_at(rate=1.0, momentum=0.5, decay=0.5, steps=1)
    return eqx.tree_at(lambda m: m.read_rates, model, rates)


def by_hand(pattern, start, steps, rate):
    """Adam in NumPy on ‖x − θ‖², which is what a read of the bowl leaves wrong."""
    theta, mean, square = start.astype(np.float64), np.zeros(6), np.zeros(6)
    first = rate * np.sqrt(np.mean(theta**2))
    for index in range(steps):
        gradient = 2 * (theta - pattern)
        mean = MOMENTA[0] * mean + (1 - MOMENTA[0]) * gradient
        square = MOMENTA[1] * square + (1 - MOMENTA[1]) * gradient**2
        unbiased = mean / (1 - MOMENTA[0] ** (index + 1)), square / (1 - MOMENTA[1] ** (index + 1))
        theta -= first * (1 - index / steps) * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    return theta


@pytest.mark.parametrize("steps", [1, 7])
def test_it_is_adam_on_what_reading_leaves_wrong(steps):
    model, pattern = bowl(), strings(1, 6, seed=1)
    (plain,) = model.write(pattern)
    (state,) = Rehearsed(model, ebmm.Rehearsal("bits:0.5", steps, rate=0.03)).write(pattern)
    np.testing.assert_allclose(state, by_hand(np.asarray(pattern[0]), np.asarray(plain), steps, 0.03), rtol=1e-4)


def test_a_memory_recalls_better_after_rehearsal(rnn):
    """Under damage that it has not practised with; the network is small, was never trained, and still gains."""
    patterns, damage = strings(4, 6), ResampledBits(0.5)
    keys = jax.random.split(jax.random.key(9), 4 * 16)
    queries, known = jax.vmap(lambda x, key: damage(x, key=key, domain=(-1.0, 1.0)))(jnp.tile(patterns, (16, 1)), keys)

    def error(memory):
        return np.mean((memory.read(queries, known=known).trajectory - np.tile(patterns, (16, 1))) ** 2)

    memory = ebmm.Memory(rnn, "small")
    plain = memory.write(patterns)
    practised = memory.write(patterns, rehearsal=ebmm.Rehearsal(damage, 150, reveal=True, parts=2, rate=0.1))
    assert practised.memory_size == plain.memory_size
    assert error(practised) < 0.9 * error(plain)


def test_steps_that_go_too_far_leave_what_was_written():
    model, pattern = bowl(), 0.5 * strings(1, 6, seed=1)  # so that the edge of the domain is far from it
    np.testing.assert_array_equal(
        Rehearsed(model, ebmm.Rehearsal("bits:0.5", 3, rate=1e4)).write(pattern)[0], model.write(pattern)[0]
    )


def test_it_is_the_same_memory_in_all_but_writing(rnn):
    rehearsed, queries = with_rehearsal(rnn, ebmm.Rehearsal("bits:0.5")), strings(4, 6, seed=2)
    for name in ("pattern_shape", "domain", "memory_size"):
        assert getattr(rehearsed, name) == getattr(rnn, name)
    state = rnn.write(strings(4, 6))
    np.testing.assert_array_equal(rehearsed.read(state, queries).patterns, rnn.read(state, queries).patterns)
    np.testing.assert_array_equal(rehearsed.energies(state, queries), rnn.energies(state, queries))


def test_bad_input_is_refused():
    for wrong, message in (
        ({"steps": 0}, "got 0 steps and 16 parts; expected at least 1 of each"),
        ({"parts": 0}, "got 320 steps and 0 parts; expected at least 1 of each"),
        ({"rate": 0.0}, "got a rate of 0.0; expected a positive number"),
        ({"rate": float("nan")}, "got a rate of nan"),
    ):
        with pytest.raises(ValueError, match=message):
            ebmm.Rehearsal("bits:0.5", **wrong)
    with pytest.raises(ValueError, match="a Hopfield is not read down an energy"):
        with_rehearsal(Hopfield((8,)), ebmm.Rehearsal("bits:0.5"))


def test_other_systems_are_left_alone_without_it():
    model = Hopfield((8,))
    assert with_rehearsal(model, None) is model


@pytest.mark.parametrize(("count", "parts"), [(8, 4), (7, 3), (2, 5)])
def test_every_pattern_is_read_once_in_a_round_and_dealt_anew_in_the_next(count, parts):
    key = jax.random.key(0)
    rounds = [[_part(count, parts, jnp.asarray(parts * r + i), key=key) for i in range(parts)] for r in range(8)]
    for dealt in rounds:
        assert set(np.concatenate(dealt).tolist()) == set(range(count))
        if count % parts == 0:
            assert len(np.concatenate(dealt)) == count
    assert len({tuple(np.concatenate(dealt).tolist()) for dealt in rounds}) > 1


def test_watching_it_changes_nothing_and_shows_it_to_the_end(shallow):
    rehearsal, seen = ebmm.Rehearsal("bits:0.5", AT_ONCE + 3, reveal=True), []
    patterns = strings(4, 6)

    def watch(pieces):
        for piece in pieces:
            yield piece
            seen.append((piece, len(pieces)))

    memory = ebmm.Memory(shallow, "small").write(patterns, rehearsal=rehearsal, watch=watch)
    expected = Rehearsed(shallow, rehearsal).write(patterns)
    for own, whole in zip(jax.tree.leaves(memory.state), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(own, whole, rtol=1e-4, atol=1e-6)
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4)]  # the write, ten steps, three, and the choice


def test_a_memory_file_tells_how_it_practised(shallow, tmp_path):
    memory, path = ebmm.Memory(shallow, "small"), tmp_path / "memory.safetensors"
    memory.write(strings(4, 6), rehearsal=ebmm.Rehearsal("bits:0.5", 3, reveal=True)).save(path)
    loaded = ebmm.Memory.load(path, memory)
    assert loaded.rehearsed == "3 steps under bits:0.5, what is undamaged known"
    assert facts_of_file(path)["rehearsed"] == loaded.rehearsed
    loaded.write(strings(4, 6)).save(path)
    assert ebmm.Memory.load(path, memory).rehearsed is None
    assert "rehearsed" not in facts_of_file(path)


def test_all_of_it_can_be_told_in_a_file():
    report = ebmm.Rehearsal("block:16", 7, parts=2, rate=0.1).report()
    assert report == {"damage": "block:16", "steps": 7, "reveal": False, "parts": 2, "rate": 0.1}
    assert json.loads(json.dumps(report)) == report
