"""The evaluator agrees with NumPy on what it returns, and with itself for a seed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmm.data.distortions import RandomBlock, SaltAndPepper
from ebmm.data.episodes import Episodes
from ebmm.evaluation.damage_curve import damage_curve
from ebmm.evaluation.errors import Spread, measure_errors


def test_errors_and_percentiles_agree_with_numpy(conv, image_episodes, key):
    errors = measure_errors(conv, image_episodes, key=key, batches=7, at_once=3, keep=True)
    stored, queries, trajectory = (errors.kept[name] for name in ("patterns", "queries", "trajectory"))
    assert stored.shape == (7, 5, 8, 8, 1)
    assert trajectory.shape == (7, 2, 5, 8, 8, 1)
    wrong = ((trajectory > 0.5) != (stored[:, None] > 0.5)).sum(axis=(3, 4, 5)).mean(axis=2)
    np.testing.assert_allclose(errors.iterates, wrong, rtol=1e-6)
    np.testing.assert_allclose(errors.nothing, (queries != stored).sum(axis=(2, 3, 4)).mean(axis=1), rtol=1e-6)
    spread = Spread.of(errors.read)
    assert spread.mean == pytest.approx(wrong[:, -1].mean())
    ordered = np.sort(
        wrong[:, -1]
    )  # of seven values, the 5-percentile lies 0.3 of the way from the first to the second
    assert spread.low == pytest.approx(ordered[0] + 0.3 * (ordered[1] - ordered[0]))
    assert spread.high == pytest.approx(ordered[6] - 0.3 * (ordered[6] - ordered[5]))


def test_the_squared_error_agrees_with_numpy(conv, image_episodes, key):
    errors = measure_errors(conv, image_episodes, key=key, metric="squared", batches=2, keep=True)
    difference = errors.kept["trajectory"] - errors.kept["patterns"][:, None]
    np.testing.assert_allclose(errors.iterates, (difference**2).sum(axis=(3, 4, 5)).mean(axis=2), rtol=1e-5)


def test_what_is_read_is_what_the_model_reads(rnn, string_episodes, key):
    errors = measure_errors(rnn, string_episodes, key=key, batches=2, keep=True)
    for batch in range(2):
        names = ("patterns", "queries", "undamaged")
        stored, queries, undamaged = (jnp.asarray(errors.kept[name][batch]) for name in names)
        out = rnn.read(rnn.write(stored), queries, known=undamaged)
        np.testing.assert_allclose(errors.kept["trajectory"][batch], out.trajectory, atol=1e-5)


def test_the_reader_is_told_what_is_undamaged_only_where_the_protocol_says_so(rnn, string_episodes, key):
    told = measure_errors(rnn, string_episodes, key=key, batches=1, keep=True).kept
    untold = measure_errors(
        rnn, Episodes(string_episodes.source, string_episodes.damage, 4), key=key, batches=1, keep=True
    ).kept
    np.testing.assert_array_equal(told["patterns"], untold["patterns"])
    np.testing.assert_array_equal(told["undamaged"], untold["undamaged"])
    kept = np.broadcast_to(told["undamaged"][:, None], told["trajectory"].shape)
    stored = np.broadcast_to(told["patterns"][:, None], told["trajectory"].shape)
    assert np.all(told["trajectory"][kept] == stored[kept])
    assert np.any(untold["trajectory"][kept] != stored[kept])


def test_a_seed_gives_the_same_numbers_and_another_gives_others(rnn, string_episodes):
    first, again, other = (
        measure_errors(rnn, string_episodes, key=jax.random.key(seed), batches=8).iterates for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_more_batches_begin_with_the_same_ones_however_many_are_measured_at_once(rnn, string_episodes, key):
    few = measure_errors(rnn, string_episodes, key=key, batches=3, at_once=1)
    many = measure_errors(rnn, string_episodes, key=key, batches=5, at_once=2)
    np.testing.assert_allclose(many.iterates[:3], few.iterates, atol=1e-6)
    np.testing.assert_array_equal(many.exact_bits[:3], few.exact_bits)
    assert many.iterates.shape == (5, 3)


def test_the_exact_store_recalls_strings_and_says_what_it_takes(string_episodes, key):
    errors = measure_errors(None, string_episodes, key=key, batches=5, keep=True)
    assert errors.kept["patterns"].shape == (5, 4, 6)
    assert np.all(errors.exact <= errors.nothing)
    assert np.all(errors.exact_bits >= 24)


def test_progress_is_watched(string_episodes, key):
    seen = []

    def watch(steps):
        for step in steps:
            seen.append(step)
            yield step

    measure_errors(None, string_episodes, key=key, batches=4, at_once=2, watch=watch)
    assert seen == [0, 2]


def test_bad_requests_are_refused(rnn, string_episodes, image_episodes, key):
    with pytest.raises(ValueError, match="batches: got 0"):
        measure_errors(rnn, string_episodes, key=key, batches=0)
    with pytest.raises(ValueError, match="metric: got 'cosine'; expected hamming or squared"):
        measure_errors(rnn, string_episodes, key=key, metric="cosine")
    with pytest.raises(ValueError, match=r"shape \(6,\).*\(8, 8, 1\)"):
        measure_errors(rnn, image_episodes, key=key)
    too_large = eqx.tree_at(lambda e: e.damage, image_episodes, RandomBlock(9))
    with pytest.raises(ValueError, match="size 9; expected at most 8"):
        measure_errors(None, too_large, key=key)


def test_the_damage_curve_measures_each_strength_on_the_same_patterns(conv, image_episodes, key):
    curve = damage_curve(conv, image_episodes, [RandomBlock(2), RandomBlock(6)], key=key, batches=4)
    assert list(curve) == ["block:2", "block:6"]
    assert curve["block:2"].nothing.mean() == pytest.approx(2, abs=1)
    assert curve["block:6"].nothing.mean() == pytest.approx(18, abs=3)
    np.testing.assert_array_equal(curve["block:2"].exact_bits, curve["block:6"].exact_bits)
    alone = measure_errors(conv, eqx.tree_at(lambda e: e.damage, image_episodes, RandomBlock(6)), key=key, batches=4)
    np.testing.assert_array_equal(curve["block:6"].iterates, alone.iterates)


def test_damage_of_one_kind_is_compiled_once(string_episodes, key):
    from ebmm.evaluation import errors

    rates = [SaltAndPepper(0.1), SaltAndPepper(0.2), SaltAndPepper(0.3)]
    damage_curve(None, string_episodes, rates[:1], key=key, batches=1)
    compiled = errors._measure._cached._cache_size()
    damage_curve(None, string_episodes, rates, key=key, batches=1)
    assert errors._measure._cached._cache_size() == compiled
