"""Updates that are traced once: the same numbers, and no tracing at a second start."""

import os

import equinox as eqx
import jax
import numpy as np
import pytest

from ebmm.training import traced
from ebmm.training.settings import Settings, Stage
from ebmm.training.traced import TracedUpdates
from ebmm.training.update import Learner, run_updates

SETTINGS = Settings(updates=2, stages=(Stage(4, 2, 2),), learning_rate=1e-2, warm_up=0)


@pytest.fixture(scope="module")
def given(shallow, string_episodes):
    indices, rates = np.arange(2, dtype=np.int32), np.full(2, 1e-2, np.float32)
    key = jax.random.key(0)
    return Learner.of(shallow, SETTINGS), string_episodes, 2, "hamming", SETTINGS, key, indices, rates


@pytest.fixture(scope="module")
def found(given, tmp_path_factory):
    """The folder after a first start, and what it learned."""
    folder = tmp_path_factory.mktemp("traced")
    return folder, TracedUpdates(folder, "a model")(*given)


def no_tracing(*_):
    raise AssertionError("was traced again")


def assert_same(one, other):
    leaves, others = (jax.tree.leaves(eqx.filter(each, eqx.is_array)) for each in (one, other))
    for a, b in zip(leaves, others, strict=True):
        np.testing.assert_array_equal(a, b)


def test_it_learns_what_plain_updates_learn(given, found):
    assert_same(found[1], run_updates(*given))
    assert jax.tree.structure(found[1]) == jax.tree.structure(run_updates(*given))


def test_a_second_start_traces_nothing(given, found, monkeypatch):
    folder, first = found
    monkeypatch.setattr(traced, "updates", no_tracing)
    again = TracedUpdates(folder, "a model")
    assert_same(again(*given), first)
    learner, _ = again(*given)  # nor do later calls, from arrays that a call gave back
    again(learner, *given[1:])
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("other", ["model", "code", "settings of JAX"])
def test_another_program_is_not_taken_for_it(given, found, monkeypatch, other):
    monkeypatch.setattr(traced, "updates", no_tracing)
    if other == "code":
        monkeypatch.setattr(traced, "_code", lambda: "changed")
    precision = "highest" if other == "settings of JAX" else None
    with jax.default_matmul_precision(precision), pytest.raises(AssertionError, match="traced again"):
        TracedUpdates(found[0], "another" if other == "model" else "a model")(*given)


def test_a_damaged_file_is_replaced(given, found, tmp_path, monkeypatch):
    (path,) = found[0].iterdir()
    (tmp_path / path.name).write_bytes(path.read_bytes()[:1000])
    assert_same(TracedUpdates(tmp_path, "a model")(*given), found[1])
    monkeypatch.setattr(traced, "updates", no_tracing)
    TracedUpdates(tmp_path, "a model")(*given)


def test_what_cannot_be_written_down_is_traced_every_time(given, found, tmp_path, monkeypatch):
    def refused(_):
        raise ValueError("Cannot serialize code with custom calls whose targets have no compatibility guarantees")

    monkeypatch.setattr(jax.export, "export", refused)
    assert_same(TracedUpdates(tmp_path, "a model")(*given), found[1])
    assert not list(tmp_path.iterdir())


def test_the_oldest_files_make_room(given, found, tmp_path, monkeypatch):
    monkeypatch.setattr(traced, "KEPT", 2)
    (path,) = found[0].iterdir()
    for age, name in enumerate(("newer", "older", "oldest")):
        (tmp_path / f"{name}.traced").touch()
        os.utime(tmp_path / f"{name}.traced", (1000 - age, 1000 - age))
    TracedUpdates(tmp_path, "a model")(*given)
    assert {each.name for each in tmp_path.iterdir()} == {"newer.traced", path.name}


def test_without_a_place_to_keep_it_updates_run_all_the_same(given, found, tmp_path):
    (tmp_path / "file").touch()
    assert_same(TracedUpdates(tmp_path / "file" / "folder", "a model")(*given), found[1])
