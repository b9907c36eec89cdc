"""An update is AdamW on the mean meta-gradient, whatever is switched on around it."""

from dataclasses import fields, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ebmm import EBMM, reconstruction_loss
from ebmm.data.episodes import Episode, Episodes
from ebmm.layers import ResBlock, he_linear
from ebmm.loops import Loop
from ebmm.training import update
from ebmm.training.settings import Settings, Stage
from ebmm.training.update import Learner, are_weights, run_updates, transformation

PLAIN = {
    "clip": None,
    "episode_clip": None,
    "cotangent_limit": None,
    "step_back": None,
    "step_size_factor": 1.0,
    "average": 0.75,
}


def settings(**changes):
    return Settings(updates=100, stages=(Stage(4, 3, 100),), **({"weight_decay": 0.01} | PLAIN | changes))


@pytest.fixture(scope="module")
def calm():
    """Settings that step back, over few updates; the step sizes' factor is tested with the same compiled update."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ebmm.training.update.LAG", 2)
        yield settings(step_back=20.0, step_size_factor=3.0)


def run(learner, sample, chosen, *, first=0, count=1, rate=0.01, episodes=4):
    indices = jnp.arange(first, first + count)
    return run_updates(
        learner, sample, episodes, "hamming", chosen, jax.random.key(5), indices, jnp.full(count, rate, jnp.float32)
    )


def arrays(model):
    return jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))


def same(first, second, **tolerance):
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def test_an_update_is_adamw_on_the_mean_gradient(shallow, string_episodes):
    chosen = settings()
    found, report = run(Learner.of(shallow, chosen), string_episodes, chosen)

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss_of(model, key):
        patterns, queries, known = string_episodes(jax.random.split(key)[0])
        return reconstruction_loss(model, patterns, queries, known=known)

    parameters = eqx.filter(shallow, eqx.is_inexact_array)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(5), 0), 4)
    loss, gradient = jax.tree.map(lambda *each: sum(each) / 4, *(loss_of(shallow, key) for key in keys))
    optimizer = optax.adamw(0.01, weight_decay=0.01, mask=are_weights)
    changes, _ = optimizer.update(gradient, optimizer.init(parameters), parameters)
    same(found.model, eqx.apply_updates(shallow, changes), rtol=1e-3, atol=2e-5)
    assert report.loss[0] == pytest.approx(float(loss), rel=1e-4)
    assert report.dropped[0] == 0


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "soap"])
def test_what_multiplies_an_input_decays_and_nothing_else(shallow, optimizer):
    """Where there is no gradient, an update of rate r leaves 1 − r · decay of it; biases and step sizes stay."""
    parameters = eqx.filter(shallow, eqx.is_inexact_array)
    nothing = jax.tree.map(jnp.zeros_like, parameters)
    changes = first_changes(transformation(settings(optimizer=optimizer, weight_decay=0.1)), nothing, parameters)
    for changed, before in zip(jax.tree.leaves(changes.energy), jax.tree.leaves(parameters.energy), strict=True):
        np.testing.assert_allclose(changed, 0.1 * before if before.ndim > 1 else 0.0 * before, rtol=1e-6)
    assert not any(np.any(array) for array in jax.tree.leaves((changes.write_rates, changes.read_rates)))
    assert np.any(parameters.write_rates.raw)


def test_several_copies_of_each_pattern_share_what_is_written(shallow, string_episodes):
    chosen = settings(group=4)
    sample = replace(string_episodes, copies=3)
    _, report = run(Learner.of(shallow, chosen), sample, chosen)
    losses, errors = [], []
    for key in jax.random.split(jax.random.fold_in(jax.random.key(5), 0), 4):
        patterns, queries, known = sample(jax.random.split(key)[0])
        out = shallow.read(shallow.write(patterns), queries, known=known)
        wanted = np.tile(patterns, (3, 1))
        losses.append(np.sum((out.trajectory - wanted) ** 2) / 12)
        errors.append(np.mean(np.sum((out.patterns > 0) != (wanted > 0), axis=1)))
    assert report.loss[0] == pytest.approx(np.mean(losses), rel=1e-4)
    assert report.error[0] == pytest.approx(np.mean(errors), abs=1e-4)


def test_the_last_read_steps_alone_may_count(shallow, string_episodes):
    chosen = settings(group=4, last_steps=1)
    _, report = run(Learner.of(shallow, chosen), string_episodes, chosen)
    losses, gradients = [], []
    for key in jax.random.split(jax.random.fold_in(jax.random.key(5), 0), 4):
        patterns, queries, known = string_episodes(jax.random.split(key)[0])

        def last_error(model, patterns=patterns, queries=queries, known=known):
            return jnp.mean(
                jnp.sum((model.read(model.write(patterns), queries, known=known).patterns - patterns) ** 2, 1)
            )

        loss, gradient = eqx.filter_value_and_grad(last_error)(shallow)
        losses.append(loss)
        gradients.append(jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(gradient)]))
    assert report.loss[0] == pytest.approx(float(np.mean(losses)), rel=1e-4)
    assert report.norm[0] == pytest.approx(float(jnp.linalg.norm(sum(gradients) / 4)), rel=1e-3)


def test_what_comes_out_has_the_types_that_went_in(shallow, string_episodes, calm):
    """Down to weak types: otherwise the second call would be compiled once more."""
    learner = Learner.of(shallow, calm)
    found, _ = run(learner, string_episodes, calm)
    given, returned = (
        [jax.typeof(leaf) for leaf in jax.tree.leaves(eqx.filter(each, eqx.is_array))] for each in (learner, found)
    )
    assert [(t.shape, t.dtype, t.weak_type) for t in given] == [(t.shape, t.dtype, t.weak_type) for t in returned]


def first_changes(optimizer, gradient, parameters):
    """Compiled as a whole, which is quicker than operation by operation."""
    return jax.jit(lambda *given: optimizer.update(given[0], optimizer.init(given[1]), given[1])[0])(
        gradient, parameters
    )


def test_muon_steps_equally_far_in_all_directions_of_a_matrix(shallow):
    """By a known length, whatever the gradient; what is no matrix moves as under Adam."""
    parameters = eqx.filter(shallow, eqx.is_inexact_array)
    gradient = jax.tree.map(lambda p: 1e-3 * jax.random.normal(jax.random.key(p.size), p.shape), parameters)
    optimizer = transformation(settings(optimizer="muon", weight_decay=0.0))
    changes = first_changes(optimizer, gradient, parameters)
    matrices = [leaf for leaf in jax.tree.leaves(changes.energy) if leaf.ndim == 2 and min(leaf.shape) > 1]
    assert matrices
    for change in matrices:
        lengths = jnp.linalg.svd(change, compute_uv=False) / (0.2 * np.sqrt(max(change.shape)))
        assert lengths.min() > 0.5
        assert lengths.max() < 1.3
    rates = changes.write_rates.raw
    np.testing.assert_allclose(rates, rates[0, 0, 0] * jnp.sign(rates * rates[0, 0, 0]), rtol=1e-2)
    for change, slope in zip(jax.tree.leaves(changes), jax.tree.leaves(gradient), strict=True):
        assert jnp.sum(change * slope) > 0


def test_a_convolution_is_a_matrix_from_all_inputs_to_its_outputs():
    block, out = ResBlock(1, 8, key=jax.random.key(0)), he_linear(8, 1, key=jax.random.key(1))
    optimizer = transformation(settings(optimizer="muon", weight_decay=0.0, clip=None))
    gradient = jax.tree.map(
        lambda p: jax.random.normal(jax.random.key(p.size), p.shape), eqx.filter((block, out), eqx.is_array)
    )
    block, out = first_changes(optimizer, gradient, gradient)
    kernel = block.second.kernel.reshape(-1, 8)  # 3 · 3 · 8 inputs
    lengths = jnp.linalg.svd(kernel, compute_uv=False) / (0.2 * np.sqrt(72))
    assert lengths.min() > 0.5
    assert lengths.max() < 1.3
    for vector in (block.skip.kernel, out.weight, block.first.bias):
        np.testing.assert_allclose(jnp.abs(vector), jnp.abs(vector).ravel()[0], rtol=1e-3)


def gradient_in(precision, model, sample, **changes):
    """What an update steps along with a plain step of length 1 and no optimizer; how many episodes were dropped."""
    chosen = settings(precision=precision, weight_decay=0.0, average=None, **changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(update, "transformation", lambda _: optax.identity())
        found, report = eqx.filter_jit(lambda *given: update.updates(*given))(  # not one that was compiled before
            Learner.of(model, chosen), sample, 4, "hamming", chosen, jax.random.key(5), jnp.arange(1), jnp.ones(1)
        )
    return np.concatenate([(a - b).ravel() for a, b in zip(*map(arrays, (model, found.model)), strict=True)]), report


def test_in_half_precision_the_gradient_is_nearly_the_same(shallow, string_episodes):
    exact, _ = gradient_in("float32", shallow, string_episodes)
    half, report = gradient_in("float16", shallow, string_episodes)
    assert not np.array_equal(exact, half)
    np.testing.assert_allclose(half, exact, rtol=0.05, atol=0.01 * np.abs(exact).max())
    assert report.dropped[0] == 0


def test_the_limit_of_the_cotangent_is_an_episodes_in_groups_too(shallow, string_episodes):
    limited = replace(shallow, loop=Loop(cotangent_limit=0.01))
    alone, together = (gradient_in("float32", limited, string_episodes, group=group)[0] for group in (1, 4))
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-4 * np.abs(alone).max())
    assert not np.allclose(alone, gradient_in("float32", shallow, string_episodes)[0], rtol=0.05)


class Loud(EBMM):
    """With a loss so large that half precision could not hold its cotangents."""

    def loss(self, *given, **named):
        loss, recalled = super().loss(*given, **named)
        return 1e5 * loss, recalled


def test_large_gradients_are_not_lost_in_half_precision(shallow, string_episodes, monkeypatch):
    loud = Loud(**{field.name: getattr(shallow, field.name) for field in fields(shallow)})
    exact, _ = gradient_in("float32", loud, string_episodes)
    half, report = gradient_in("float16", loud, string_episodes)
    assert report.dropped[0] == 0
    np.testing.assert_allclose(half, exact, rtol=0.05, atol=0.01 * np.abs(exact).max())
    monkeypatch.setattr(update, "LOSS_SCALE", 1.0)
    assert gradient_in("float16", loud, string_episodes)[1].dropped[0] > 0


def test_episodes_in_groups_have_the_same_mean_gradient(shallow, string_episodes):
    alone, pairs, together = (
        run(Learner.of(shallow, chosen), string_episodes, chosen)
        for chosen in (settings(), settings(group=2), settings(group=4))
    )
    for grouped in (pairs, together):
        same(alone[0].model, grouped[0].model, rtol=1e-3, atol=2e-5)
        np.testing.assert_allclose(alone[1].loss, grouped[1].loss, rtol=1e-5)
        np.testing.assert_allclose(alone[1].error, grouped[1].error, rtol=1e-5)


def test_step_sizes_move_faster_than_weights(shallow, string_episodes, calm):
    slow, fast = (run(Learner.of(shallow, chosen), string_episodes, chosen)[0].model for chosen in (settings(), calm))
    moved = fast.write_rates.raw - shallow.write_rates.raw
    np.testing.assert_allclose(moved, 3 * (slow.write_rates.raw - shallow.write_rates.raw), rtol=1e-3, atol=1e-6)
    same(fast.energy, slow.energy, rtol=1e-5)


def test_many_updates_in_a_call_are_the_same_as_one_at_a_time(shallow, string_episodes):
    chosen = settings(group=4)
    together, reports = run(Learner.of(shallow, chosen), string_episodes, chosen, count=3)
    apart = Learner.of(shallow, chosen)
    for index in range(3):
        apart, _ = run(apart, string_episodes, chosen, first=index)
    same(together, apart, rtol=1e-3, atol=1e-5)
    assert reports.error.shape == (3,)


def test_the_average_follows_the_weights(shallow, string_episodes):
    chosen = settings()
    start = Learner.of(shallow, chosen)
    learner, _ = run(start, string_episodes, chosen)
    expected = jax.tree.map(
        lambda a, b: 0.75 * a + 0.25 * b, *(eqx.filter(m, eqx.is_inexact_array) for m in (shallow, learner.model))
    )
    same(learner.average, expected, rtol=1e-6)
    same(learner.best, expected, rtol=1e-6)
    assert Learner.of(shallow, settings(average=None)).best is shallow


def surprised(learner, by=5):
    """The learner with a gradient that is now e^5, 150 times, as long as usual."""
    return eqx.tree_at(lambda each: each.calm.log_norm, learner, replace_fn=lambda usual: usual - by)


def with_strikes(learner, strikes):
    return eqx.tree_at(lambda each: each.calm.strikes, learner, jnp.array(strikes, jnp.int32))


def test_a_single_long_gradient_changes_nothing(shallow, string_episodes, calm):
    """It may be due to its batch."""
    first, _ = run(Learner.of(shallow, calm), string_episodes, calm)
    after, report = run(surprised(first), string_episodes, calm, first=1)
    assert report.skipped[0] == 1
    assert report.stepped_back[0] == 0
    same(after.model, first.model, rtol=0)
    same(after.optimizer, first.optimizer, rtol=0)
    assert after.calm.strikes == 1
    assert after.calm.scale == 1
    used_to_it = eqx.tree_at(lambda learner: learner.calm.log_norm, after, first.calm.log_norm)
    onwards, report = run(used_to_it, string_episodes, calm, first=2)
    assert report.skipped[0] == 0
    assert onwards.calm.strikes == 0


def test_the_third_in_a_row_leads_back_and_the_next_steps_are_smaller(shallow, string_episodes, calm):
    start = Learner.of(shallow, calm)
    first, _ = run(start, string_episodes, calm)
    learner, steps = surprised(first, by=6), []
    for index in range(1, 4):
        learner, report = run(learner, string_episodes, calm, first=index)
        steps.append((int(report.skipped[0]), int(report.stepped_back[0])))
    assert steps == [(1, 0), (1, 0), (0, 1)]
    same(learner.model, start.model, rtol=0)  # there is none older
    same(learner.optimizer, start.optimizer, rtol=0)
    assert learner.calm.scale == 0.5
    assert learner.calm.strikes == 0
    used_to_it = eqx.tree_at(lambda learner: learner.calm.log_norm, learner, first.calm.log_norm)
    onwards, report = run(used_to_it, string_episodes, calm, first=4)
    assert report.stepped_back[0] == 0
    full, half = (
        jax.tree.leaves(after.model.energy)[0] - jax.tree.leaves(shallow.energy)[0] for after in (first, onwards)
    )
    assert 0.2 < jnp.linalg.norm(half) / jnp.linalg.norm(full) < 0.8
    assert 0.5 < onwards.calm.scale < 0.51


def test_it_steps_back_past_the_last_updates(shallow, string_episodes, calm):
    """One state is kept every so many updates, and of two the older is gone back to."""
    learners = [Learner.of(shallow, calm)]
    for index in range(5):
        learners.append(run(learners[-1], string_episodes, calm, first=index)[0])
    unusual = with_strikes(surprised(learners[-1]), 2)
    back, report = run(unusual, string_episodes, calm, first=5)
    assert report.stepped_back[0] == 1
    same(back.model, learners[1].model, rtol=0)
    still = eqx.tree_at(lambda learner: learner.calm.log_norm, with_strikes(back, 2), unusual.calm.log_norm)
    again, _ = run(still, string_episodes, calm, first=6)
    same(again.model, learners[1].model, rtol=0)
    assert again.calm.scale == 0.25


def test_a_lasting_change_of_the_gradients_length_is_followed(shallow, string_episodes, calm):
    learner, _ = run(Learner.of(shallow, calm), string_episodes, calm, rate=0.0)
    learner, steps = surprised(learner, by=4), []
    for index in range(60):
        learner, report = run(learner, string_episodes, calm, first=index, rate=0.0)
        steps.append(float(report.stepped_back[0] + report.skipped[0]))
    assert steps[0] == 1
    assert sum(steps[-10:]) == 0


class SometimesBroken(Episodes):
    """Episodes of which some are not finite: `share` of them."""

    share: jax.Array = eqx.field(default_factory=lambda: jnp.array(0.5))

    def __call__(self, key):
        patterns, queries, known = super().__call__(key)
        broken = jax.random.uniform(jax.random.fold_in(key, 1)) < self.share
        return Episode(jnp.where(broken, jnp.nan, patterns), queries, known)


def test_episodes_that_are_not_finite_are_dropped_and_counted(shallow, string_episodes):
    sample = SometimesBroken(string_episodes.source, string_episodes.damage, 4, reveal=True)
    chosen = settings(episode_clip=2.0)
    learner, report = run(Learner.of(shallow, chosen), sample, chosen, count=4, episodes=6)
    assert 0 < report.dropped.sum() < 24
    assert np.isfinite(report.loss).all()
    assert all(np.isfinite(array).all() for array in arrays(learner.model))


def test_without_a_finite_episode_nothing_changes(shallow, string_episodes):
    sample = SometimesBroken(string_episodes.source, string_episodes.damage, 4, reveal=True, share=jnp.array(2.0))
    chosen = settings(episode_clip=2.0)
    start = Learner.of(shallow, chosen)
    learner, report = run(start, sample, chosen, count=4, episodes=6)
    for a, b in zip(
        jax.tree.leaves(eqx.filter(start, eqx.is_array)),
        jax.tree.leaves(eqx.filter(learner, eqx.is_array)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    assert np.all(report.dropped == 6)
    assert np.isnan(report.error).all()


@pytest.mark.parametrize(
    ("backend", "triton", "options"),
    [
        ("gpu", False, {"xla_gpu_enable_triton_gemm": False}),
        ("gpu", True, {}),
        ("cpu", False, {}),
    ],
)
def test_without_triton_xla_is_told_so_on_a_gpu_alone(monkeypatch, backend, triton, options):
    told = []
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(eqx, "filter_jit", lambda function, **options: told.append(options))
    update._program.cache_clear()
    update.program(settings(triton=triton))
    update._program.cache_clear()
    assert told == [{"compiler_options": options}]
