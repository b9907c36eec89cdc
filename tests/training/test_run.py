"""A run on disk: what it leaves, how it goes on, and what it refuses."""

import json
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import equinox as eqx
import jax
import numpy as np
import pytest

import ebmm
from ebmm.baselines import SYSTEMS
from ebmm.bundled import bundled_models
from ebmm.data import DATASETS
from ebmm.data.dataset import File, Pixels, Source
from ebmm.data.images import Correlated
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.experiments import EXPERIMENTS
from ebmm.files import load_tensors, save_tensors
from ebmm.pretrained import NETWORKS, load_model, trained_of
from ebmm.training.run import Run, identity, network_sizes, sources
from ebmm.training.settings import Stage

WHOLE = EXPERIMENTS["debug"]
SHORT = replace(WHOLE.settings, updates=200, stages=(Stage(2, 8, 60), Stage(3, 8, 200)), learning_rate=2e-2)
DEBUG = replace(WHOLE, sizes=WHOLE.sizes | {"hops": 1}, settings=SHORT)  # as it is, but quicker


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run = Run.open(DEBUG, folder, seed=3)
    for _ in run.train():
        pass
    run.save()
    return folder


def assert_same_model(first, second):
    one, other = (
        load_tensors(folder / "model/model.safetensors", format="ebmm-model")[0] for folder in (first, second)
    )
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def lines(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if "seconds" not in name} for line in found]


def test_several_copies_are_for_training_alone(tmp_path):
    run = Run.open(replace(DEBUG, settings=replace(SHORT, copies=3)), tmp_path / "run", seed=3)
    assert (run.trainer.episodes_of(2).copies, run.test_episodes.copies) == (3, 1)


def test_a_run_leaves_its_description_its_metrics_and_a_model_that_works(finished):
    config = json.loads((finished / "config.json").read_text())
    assert config["experiment"]["name"] == "debug"
    assert config["seed"] == 3
    metrics = lines(finished)
    assert metrics[-1]["update"] == 200
    assert {"loss", "error", "norm", "dropped", "rate", "patterns", "held_out"} <= metrics[-1].keys()
    memory = ebmm.Memory.from_pretrained(finished / "model")
    assert memory.memory_size == 17 * 8
    assert memory.write(np.ones((2, 16))).read(np.ones((2, 16))).patterns.shape == (2, 16)


def test_it_learns(finished):
    """The error of doing nothing is 4 of 16 bits."""
    errors = [line["error"] for line in lines(finished)]
    assert errors[0] > 2.8
    assert np.mean(errors[-4:]) < 2.2


def test_a_killed_run_resumes_to_the_same_model_and_the_same_metrics(finished, tmp_path):
    folder = tmp_path / "killed"
    for point in Run.open(DEBUG, folder, seed=3).train():
        if point["update"] == 137:  # lost back to update 100
            break
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"update": 3')  # a line that was cut off
    resumed = Run.open(DEBUG, folder, seed=3, resume=True)
    for _ in resumed.train():
        pass
    assert_same_model(folder, finished)
    assert lines(folder) == lines(finished)


def test_a_model_of_more_patterns_starts_with_shorter_write_steps(finished, tmp_path):
    """The run ends with three patterns and begins with two: each is to be written as hard as before."""
    learned = load_model(finished / "model")[0].write_rates()
    started = Run.open(DEBUG, tmp_path / "next", start=finished / "model").model.write_rates()
    np.testing.assert_allclose(started, learned * np.array([2 / 3, 2 / 3, 1.0]), rtol=1e-5)


def test_a_run_that_starts_from_a_model_does_not_meet_its_batches_again(finished, tmp_path):
    """Though the seed is the same: an error in training would otherwise be that of batches seen before."""
    started = Run.open(DEBUG, tmp_path / "next", seed=3, start=finished / "model").trainer
    fresh = Run.open(DEBUG, tmp_path / "fresh", seed=3).trainer
    draws = [trainer.episodes_of(2)(trainer.key).patterns for trainer in (started, fresh)]
    assert not np.array_equal(*draws)


def test_a_model_of_fewer_read_steps_is_given_more(finished, tmp_path):
    model = load_model(finished / "model")[0]
    started = Run.open(replace(DEBUG, read_steps=4), tmp_path / "next", start=finished / "model").model
    assert len(started.read_rates.rates()) == 4
    np.testing.assert_allclose(started.read_rates.rates()[:2], model.read_rates.rates(), rtol=1e-6)
    with pytest.raises(ValueError, match="holds another model"):
        Run.open(replace(DEBUG, read_steps=1), tmp_path / "shorter", start=finished / "model")


@pytest.mark.parametrize(("name", "bundled"), [("binary-32", "binary-rnn"), ("binary-96-mixed", "binary-mixed")])
def test_other_numbers_of_strings_start_from_the_bundled_model(tmp_path, name, bundled):
    experiment, model = EXPERIMENTS[name], load_model(bundled_models()[bundled])[0]
    patterns = experiment.settings.stages[0].patterns
    few = replace(experiment, settings=replace(experiment.settings, stages=(Stage(patterns, 1, 1),), updates=1))
    run = Run.open(few, tmp_path / "started")
    np.testing.assert_array_equal(run.model.energy.memory.weight, model.energy.memory.weight)
    np.testing.assert_array_equal(run.model.energy.static.weight, model.energy.static.weight)
    assert run.before["updates"] == trained_of(bundled_models()[bundled])["updates"]
    assert json.loads((tmp_path / "started/config.json").read_text())["start"] is not None


def test_an_experiment_may_write_without_the_gradient_term(tmp_path):
    without = replace(DEBUG, gradient_term=False)
    assert Run.open(without, tmp_path / "without").model.gradient_term is False
    assert identity(without, 0) != identity(DEBUG, 0)


def test_a_folder_with_a_run_is_not_overwritten(finished):
    with pytest.raises(ValueError, match="holds a run already; resume it with --resume"):
        Run.open(DEBUG, finished, seed=3)


def test_there_has_to_be_something_to_resume(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run to resume"):
        Run.open(DEBUG, tmp_path, resume=True)


@pytest.mark.parametrize(
    "other", [{"seed": 4}, {"experiment": replace(DEBUG, write_steps=3)}, {"experiment": replace(DEBUG, read_steps=3)}]
)
def test_a_run_is_resumed_as_it_was_started(finished, other):
    with pytest.raises(ValueError, match="holds a run of debug with seed 3"):
        Run.open(**({"experiment": DEBUG, "folder": finished, "seed": 3, "resume": True} | other))


@pytest.fixture
def copied(finished, tmp_path):
    for path in finished.rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(finished)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path


def test_a_truncated_checkpoint_is_refused(copied):
    newest = max((copied / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-10])
    with pytest.raises(ValueError, match="truncated"):
        Run.open(DEBUG, copied, seed=3, resume=True)


def test_a_checkpoint_of_another_run_is_refused(copied):
    newest = max((copied / "checkpoints").iterdir())
    tensors, about = load_tensors(newest, format="ebmm-checkpoint")
    save_tensors(newest, tensors, **(about | {"run": "another"}))
    with pytest.raises(ValueError, match="belongs to another experiment or seed"):
        Run.open(DEBUG, copied, seed=3, resume=True)


def test_a_checkpoint_from_a_newer_version_is_refused(copied):
    newest = max((copied / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes().replace(b'"version":"1"', b'"version":"9"'))
    with pytest.raises(ValueError, match="has version 9; .* Upgrade ebmm"):
        Run.open(DEBUG, copied, seed=3, resume=True)


def test_a_damaged_description_is_refused(copied):
    (copied / "config.json").write_text("{")
    with pytest.raises(ValueError, match="config.json is damaged"):
        Run.open(DEBUG, copied, seed=3, resume=True)


def test_no_test_image_is_learned_from(monkeypatch, tmp_path):
    """Even where a dataset has the same image in both parts."""
    random = np.random.default_rng(0).integers(0, 2, (6, 32, 32, 1), dtype=np.uint8)
    parts = {"train": random[:4], "test": random[3:]}
    for name in parts:
        (tmp_path / name).touch()

    def source(name):
        return (Source((File(name),), lambda _: Pixels(parts[name], np.arange(len(parts[name])))),)

    monkeypatch.setenv("EBMM_DATA", str(tmp_path))
    monkeypatch.setattr("ebmm.data.dataset.user_folder", lambda: tmp_path)
    fake = replace(DATASETS["omniglot"], name="fake", sources={name: source(name) for name in parts})
    monkeypatch.setitem(DATASETS, "omniglot", fake)
    train, test = sources(EXPERIMENTS["omniglot-conv-9k"])
    assert len(train.images) == 3
    assert len(test) == 3
    assert not set(train.images.hashes()) & set(test.hashes())


def test_what_is_watched_is_written_with_the_steps_for_the_last_stage(monkeypatch, tmp_path):
    watched = []

    def measure(model, episodes, **_):
        watched.append((model.write_rates(), episodes.patterns))
        return SimpleNamespace(read=[1.0])

    monkeypatch.setattr("ebmm.training.run.measure_errors", measure)
    run = Run.open(DEBUG, tmp_path / "run")
    run.held_out_error()
    first, last = (DEBUG.settings.stages[i].patterns for i in (0, -1))
    factor = (last / first) ** 0.5
    assert watched[0][1] == last > first
    np.testing.assert_allclose(watched[0][0], run.model.write_rates() * np.array([factor, factor, 1.0]), rtol=1e-5)


def test_every_experiment_can_be_built():
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.on in PROTOCOLS
        shape = (experiment.bits,) if experiment.on == "strings" else (32, 32, 1)
        if experiment.network in SYSTEMS:
            build = partial(SYSTEMS[experiment.network], shape, **experiment.sizes)
        else:
            build = partial(NETWORKS[experiment.network], **network_sizes(experiment))
        eqx.filter_eval_shape(lambda key, build=build: build(key=key), jax.random.key(0))


def test_a_run_killed_before_its_first_checkpoint_starts_again(finished, tmp_path):
    (tmp_path / "config.json").write_bytes((finished / "config.json").read_bytes())
    run = Run.open(DEBUG, tmp_path, seed=3, resume=True)
    assert run.trainer.progress.update == 0


def test_the_hopfield_rules_are_measured_beside_the_model_on_the_same_batches(tmp_path):
    run = Run.open(replace(DEBUG, beside=("hebb",)), tmp_path / "run")
    errors = run.comparison(batches=10)
    assert list(errors) == ["debug", "Hopfield, hebb, asynchronous", "Hopfield, hebb, synchronous"]
    assert errors["debug"] > errors["Hopfield, hebb, synchronous"]  # nothing has been learned yet
    assert errors == run.comparison(batches=10)


@pytest.mark.parametrize("stop", [33, 50, 61])
def test_a_run_stopped_between_two_lines_has_the_same_metrics_in_the_end(finished, tmp_path, stop):
    folder = tmp_path / "stopped"
    run = Run.open(DEBUG, folder, seed=3)
    for point in run.train():
        if point["update"] == stop:
            break
    run.save()
    for _ in Run.open(DEBUG, folder, seed=3, resume=True).train():
        pass
    assert lines(folder) == lines(finished)


def test_words_about_an_experiment_may_change_and_numbers_may_not():
    assert identity(DEBUG, 0) == identity(replace(DEBUG, about="other words", expected="tomorrow"), 0)
    assert identity(DEBUG, 0) != identity(replace(DEBUG, bits=17), 0)
    assert identity(DEBUG, 0) != identity(DEBUG, 1)


def test_a_folder_that_lost_its_description_is_not_taken_for_a_new_one(copied):
    (copied / "config.json").unlink()
    with pytest.raises(ValueError, match="holds a run already"):
        Run.open(DEBUG, copied, seed=3)


def test_a_seed_that_a_key_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ValueError, match="seed: got 4294967296"):
        Run.open(DEBUG, tmp_path / "run", seed=2**32)


def test_correlated_batches_are_learned_from_and_tested_on(monkeypatch):
    sample = DATASETS["omniglot-sample"]
    fake = replace(sample, sources={"train": sample.sources["test"], "test": sample.sources["test"]})
    monkeypatch.setitem(DATASETS, "omniglot", fake)
    monkeypatch.setattr(type(sample.images("test")), "without", lambda self, _: self)
    correlated = replace(EXPERIMENTS["omniglot-conv-9k"], on="omniglot-correlated")
    with pytest.raises(ValueError, match="cannot be augmented"):
        sources(correlated)
    train, test = sources(replace(correlated, settings=replace(correlated.settings, augment=False)))
    assert isinstance(train, Correlated)
    assert isinstance(test, Correlated)
