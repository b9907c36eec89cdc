"""The drawings that come with the package."""

import socket

import numpy as np
import pytest
from archives_for_tests import own_folder

from ebmm.data import DATASETS
from ebmm.data.omniglot_sample import FOLDER, chosen

SAMPLE = DATASETS["omniglot-sample"]


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_the_sample_loads_without_network_or_data_folder_and_writes_nothing(tmp_path, monkeypatch):
    own_folder(tmp_path, monkeypatch).rmdir()
    images, labels = SAMPLE.load("test")
    assert images.shape == (640, 32, 32, 1)
    assert images.dtype == np.float32
    assert set(np.unique(images)) == {0, 1}
    np.testing.assert_array_equal(np.bincount(labels), [20] * 32)
    assert not list(tmp_path.iterdir())


def test_the_drawings_look_like_drawings():
    images, _ = SAMPLE.load("test")
    ink = images.sum(axis=(1, 2, 3))
    assert ink.min() > 5
    assert 70 < ink.mean() < 110  # 89.7 in the whole evaluation set
    assert len(set(SAMPLE.images("test").hashes())) == 640
    edges = np.concatenate([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], axis=1)
    assert edges.mean() < images[:, 8:24, 8:24].mean() / 3  # strokes lie in the middle


def test_the_sample_is_small_and_its_licence_lies_beside_it():
    (file,) = FOLDER.glob("*.npz")
    assert file.stat().st_size < 150_000
    licence = (FOLDER / "LICENSE.omniglot").read_text("utf-8")
    assert "MIT License" in licence
    assert "Copyright" in licence
    assert SAMPLE.licence == "MIT"


def test_there_is_no_training_split():
    with pytest.raises(ValueError, match="omniglot-sample: got split 'train'; expected test"):
        SAMPLE.load("train")


def test_the_characters_are_spread_evenly_and_whole():
    labels = np.repeat(np.arange(659), 20)
    characters, counts = np.unique(labels[chosen(labels)], return_counts=True)
    assert len(characters) == 32
    assert (characters[0], characters[-1]) == (0, 658)
    assert set(np.diff(characters)) == {21, 22}
    np.testing.assert_array_equal(counts, 20)
