"""The engine: stages, snapshots, roll-back and resuming."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from ebmm.data.episodes import Episodes
from ebmm.training import trainer as engine
from ebmm.training.checkpoint import Checkpoints
from ebmm.training.progress import Diverged
from ebmm.training.settings import Settings, Stage
from ebmm.training.trainer import Trainer
from ebmm.training.update import Report

SETTINGS = Settings(
    updates=24, stages=(Stage(2, 2, 8), Stage(4, 2, 24)), learning_rate=3e-3, warm_up=2, snapshot=4, patience=None
)


@pytest.fixture
def start(shallow, string_episodes):
    def start(folder=None, settings=SETTINGS, seed=0, call=None):
        def episodes_of(patterns):
            return Episodes(string_episodes.source, string_episodes.damage, patterns, reveal=True)

        checkpoints = None if folder is None else Checkpoints(folder, "a run")
        trainer = Trainer.start(
            shallow,
            episodes_of,
            settings,
            metric="hamming",
            key=jax.random.key(seed),
            checkpoints=checkpoints,
            call=call,
        )
        if checkpoints is not None and checkpoints.newest() is None:
            trainer.save()
        return trainer

    return start


def train(trainer, updates=None):
    """Train on, and save at every snapshot, as a run does."""
    for point in trainer.train():
        if point.get("snapshot"):
            trainer.save()
        if point["update"] == updates:
            break


def arrays(tree):
    return jax.tree.leaves(eqx.filter(tree, eqx.is_array))


def assert_same(first, second):
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_run_goes_through_its_stages_and_ends(start):
    trainer = start()
    points = list(trainer.train())
    assert [point["update"] for point in points] == list(range(1, 25))
    assert [point["patterns"] for point in points] == [2] * 8 + [4] * 16
    assert points[7]["event"] == "on to 4 patterns"
    assert trainer.is_done
    assert trainer.progress.update == 24


def test_a_run_that_is_planned_by_the_clock_ends_when_its_time_is_up(start):
    trainer = start(settings=replace(SETTINGS, minutes=1e-9))
    first, second = trainer.train()  # the first call is compiling, which does not count
    assert first["seconds"] == 0 < second["seconds"]
    assert second["snapshot"]
    assert trainer.is_done


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(start, tmp_path):
    whole = start()
    list(whole.train())
    for stop in (3, 8, 14):  # between snapshots and at one; all that came after the last checkpoint is lost
        folder = tmp_path / str(stop)
        killed = start(folder)
        train(killed, stop)
        resumed = start(folder)
        resumed.resume()
        assert resumed.progress.update == stop // 4 * 4
        list(resumed.train())
        assert_same(resumed.learner, whole.learner)


def test_a_run_that_is_stopped_and_saved_between_snapshots_goes_on_from_there(start, tmp_path):
    whole = start()
    list(whole.train())
    stopped = start(tmp_path)
    train(stopped, 6)
    stopped.save()
    resumed = start(tmp_path)
    resumed.resume()
    assert resumed.progress.update == 6
    assert [snapshot.progress.update for snapshot in resumed.snapshots] == [0, 4]
    list(resumed.train())
    assert_same(resumed.learner, whole.learner)


def test_only_the_snapshots_that_a_roll_back_needs_stay_on_disk(start, tmp_path):
    trainer = start(tmp_path)
    train(trainer)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "update-000000020.safetensors",
        "update-000000024.safetensors",
    ]


@pytest.fixture
def errors(monkeypatch):
    """Stands in for the compiled updates: errors as told, by update, and a learner that only counts.

    Under "dropped" is how many episodes of every update are not finite.
    """
    told = {}

    def run_updates(learner, sample, episodes, metric, settings, key, indices, rates, mesh):
        counted = eqx.tree_at(
            lambda one: one.model.read_rates.rates.raw_first, learner, replace_fn=lambda x: x + len(indices)
        )
        values = np.array([told.get(int(index), 1.0) for index in indices])
        dropped = np.full(len(values), told.get("dropped", 0))
        return counted, Report(values, values, values, dropped, *2 * [np.zeros(len(values))])

    monkeypatch.setattr(engine, "run_updates", run_updates)
    monkeypatch.setattr("ebmm.training.progress.TRUST", 2)
    monkeypatch.setattr("ebmm.training.progress.RECENT", 1)
    return told


def count(trainer):
    return float(trainer.learner.model.read_rates.rates.raw_first)


def test_when_the_error_leaves_its_average_the_older_snapshot_comes_back(start, errors):
    settings = replace(SETTINGS, stages=(Stage(2, 2, 24),), updates=12)
    errors[9] = 100.0
    trainer = start(settings=settings)
    first = count(trainer)
    points = list(trainer.train())
    rolled = points[9]
    assert "rolled back to update 4" in rolled["event"]
    assert "0.80" in rolled["event"]
    assert points[10]["rate"] == pytest.approx(0.8 * settings.rate_at(10))
    assert count(trainer) - first == pytest.approx(4 + 2)  # what was there at update 4, and two more updates
    assert trainer.progress.roll_backs == 1


@pytest.mark.parametrize("rescale", [True, False])
def test_more_patterns_start_with_longer_write_steps(start, errors, rescale):
    """Of the model, of its average, and of the states that can be stepped back to."""
    settings = replace(SETTINGS, stages=(Stage(2, 2, 8), Stage(8, 2, 24)), rescale=rescale, average=0.9)
    trainer = start(settings=settings)
    before = trainer.learner.model.write_rates()
    train(trainer, 8)
    learner = trainer.learner
    expected = np.array([2.0, 2.0, 1.0] if rescale else 3 * [1.0]) * before
    for arrays_of in (learner, learner.calm.older, learner.calm.newer):
        np.testing.assert_allclose(arrays_of.model.write_rates(), expected, rtol=1e-5)
        np.testing.assert_allclose(arrays_of.average.write_rates(), expected, rtol=1e-5)
    assert trainer.snapshots[-1].learner is learner


def test_a_roll_back_to_another_stage_fits_the_write_steps(start, errors):
    settings = replace(SETTINGS, stages=(Stage(2, 2, 8), Stage(8, 2, 24)), snapshot=7, updates=14)
    errors[12] = 100.0
    trainer = start(settings=settings)
    before = trainer.learner.model.write_rates()
    events = [point["event"] for point in trainer.train() if "event" in point]
    assert [event[:22] for event in events] == ["on to 8 patterns", "rolled back to update "]
    assert "to update 0" in events[1]  # with the write steps of two patterns
    np.testing.assert_allclose(trainer.learner.model.write_rates(), np.array([2.0, 2.0, 1.0]) * before, rtol=1e-5)


def test_many_dropped_episodes_are_told_at_a_snapshot(start, errors):
    settings = replace(SETTINGS, stages=(Stage(2, 4, 24),), updates=12)
    events = [point.get("event") for point in start(settings=settings).train()]
    assert events == [None] * 12
    errors["dropped"] = 1
    events = [point.get("event") for point in start(settings=settings).train()]
    assert [index for index, event in enumerate(events, 1) if event] == [4, 8, 12]
    assert "25% of the episodes since the last snapshot" in events[3]


def test_a_run_that_cannot_be_saved_gives_up_and_keeps_its_last_good_snapshot(start, errors, tmp_path):
    errors |= {index: float("nan") for index in range(6, 100)}
    settings = replace(SETTINGS, stages=(Stage(2, 2, 100),), updates=100)
    trainer = start(tmp_path, settings=settings)
    with pytest.raises(Diverged, match="lower one or another seed"):
        train(trainer)
    assert trainer.progress.roll_backs >= 6
    assert (tmp_path / "update-000000004.safetensors").exists()


def test_a_snapshot_has_to_fall_between_two_calls(shallow, string_episodes):
    with pytest.raises(ValueError, match="expected a multiple of 3"):
        Trainer.start(shallow, lambda _: string_episodes, SETTINGS, metric="hamming", key=jax.random.key(0), call=3)


def test_later_stages_are_compiled_ahead_on_an_accelerator(start, monkeypatch):
    """Pretending that this is one: the numbers are the same, and each stage is run once for nothing."""
    plain = start()
    list(plain.train())
    calls = []
    original = Trainer._run
    monkeypatch.setattr(
        Trainer, "_run", lambda self, *arguments: calls.append(arguments[1]) or original(self, *arguments)
    )
    monkeypatch.setattr(engine.jax, "default_backend", lambda: "gpu")
    ahead = start(call=1)
    list(ahead.train())
    assert len(calls) == 24 + 1
    assert calls[0] == SETTINGS.stages[0]  # the first update waits for nothing
    assert_same(ahead.learner, plain.learner)
