"""What was prepared once is used again, as long as it is whole and its source is the same."""

import os
from dataclasses import replace

import numpy as np
import pytest
from archives_for_tests import enlarged, idx, of_any_size, own_folder, with_sources

from ebmm.data import DATASETS

MNIST = of_any_size(DATASETS["mnist"])
IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
PREPARED = "mnist-test-v1.safetensors"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return own_folder(tmp_path, monkeypatch)


@pytest.fixture
def digits(folder, rng):
    """Written to the data folder, with the labels 1 to 5."""
    digits = rng.integers(0, 256, (5, 28, 28), np.uint8)
    (folder / IMAGES).write_bytes(idx(digits))
    (folder / LABELS).write_bytes(idx([1, 2, 3, 4, 5]))
    return digits


def watched(dataset):
    """The dataset, and a list that grows when its source is read."""
    readings = []

    def watch(source):
        def read(*paths):
            readings.append(paths)
            return source.read(*paths)

        return replace(source, read=read)

    return with_sources(dataset, watch), readings


def same(images, digits, labels=(1, 2, 3, 4, 5)):
    np.testing.assert_array_equal(images.take(np.arange(len(images))), enlarged(digits))
    np.testing.assert_array_equal(images.labels, labels)


def test_the_source_is_read_once(folder, digits):
    dataset, readings = watched(MNIST)
    first, second = dataset.images("test"), dataset.images("test")
    assert len(readings) == 1
    for images in (first, second):
        same(images, digits)
        assert images.pattern_shape == (32, 32, 1)
    assert [path.name for path in (folder / "prepared").iterdir()] == [PREPARED]
    assert dataset.prepared_path("test", folder) == folder / "prepared" / PREPARED


def test_a_changed_source_is_prepared_again(folder, digits):
    dataset, readings = watched(MNIST)
    dataset.images("test")
    (folder / IMAGES).write_bytes(idx(digits[:2]))
    (folder / LABELS).write_bytes(idx([8, 9]))
    same(dataset.images("test"), digits[:2], [8, 9])
    same(dataset.images("test"), digits[:2], [8, 9])
    assert len(readings) == 2


def test_a_source_of_the_same_size_that_was_written_later_is_prepared_again(folder, digits):
    dataset, _ = watched(MNIST)
    dataset.images("test")
    before = (folder / LABELS).stat()
    (folder / LABELS).write_bytes(idx([5, 4, 3, 2, 1]))
    os.utime(folder / LABELS, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
    same(dataset.images("test"), digits, [5, 4, 3, 2, 1])


def test_another_form_of_the_source_is_prepared_again(folder, digits):
    dataset, readings = watched(MNIST)
    dataset.images("test")
    for name in (IMAGES, LABELS):
        (folder / name).unlink()
    np.savez(folder / "mnist_test.npz", images=digits[::-1], labels=np.arange(5))
    same(dataset.images("test"), digits[::-1], range(5))
    assert len(readings) == 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "replaced"])
def test_damaged_arrays_are_prepared_again(damage, folder, digits):
    dataset, readings = watched(MNIST)
    dataset.images("test")
    path = folder / "prepared" / PREPARED
    sound = path.read_bytes()
    flipped = sound[:-1] + bytes([sound[-1] ^ 1])
    path.write_bytes({"flipped": flipped, "cut": sound[:-10], "empty": b"", "replaced": b"something else"}[damage])
    same(dataset.images("test"), digits)
    assert len(readings) == 2
    dataset.images("test")
    assert len(readings) == 2


def test_prepared_arrays_need_no_source(folder, digits):
    dataset, readings = watched(MNIST)
    dataset.images("test")
    for name in (IMAGES, LABELS):
        (folder / name).unlink()
    same(dataset.images("test", fetch=False), digits)
    assert len(readings) == 1


def test_damaged_arrays_without_a_source_are_an_error(folder, digits):
    MNIST.images("test")
    for name in (IMAGES, LABELS):
        (folder / name).unlink()
    (folder / "prepared" / PREPARED).write_bytes(b"damaged")
    with pytest.raises((ValueError, FileNotFoundError), match="mnist"):
        MNIST.images("test", fetch=False)


def test_arrays_prepared_by_another_version_are_not_used(folder, digits):
    dataset, readings = watched(MNIST)
    dataset.images("test")
    replace(dataset, version=2).images("test")
    assert len(readings) == 2


def test_splits_are_kept_apart(folder, digits):
    (folder / "train-images-idx3-ubyte").write_bytes(idx(digits[::-1]))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx([5, 4, 3, 2, 1]))
    for _ in range(2):
        same(MNIST.images("test"), digits)
        same(MNIST.images("train"), digits[::-1], [5, 4, 3, 2, 1])


def test_a_folder_that_cannot_be_written_to_is_read_and_the_arrays_kept_in_the_users(folder, digits, tmp_path):
    (folder / "prepared").touch()  # where the folder of this name would be
    dataset, readings = watched(MNIST)
    same(dataset.images("test"), digits)
    same(dataset.images("test"), digits)
    assert len(readings) == 1
    assert (tmp_path / "user" / "prepared" / PREPARED).is_file()
    assert (folder / "prepared").read_bytes() == b""


def test_with_no_place_to_keep_the_arrays_they_are_prepared_every_time(folder, digits, tmp_path):
    (folder / "prepared").touch()
    (tmp_path / "user").touch()
    dataset, readings = watched(MNIST)
    same(dataset.images("test"), digits)
    same(dataset.images("test"), digits)
    assert len(readings) == 2


def test_a_failed_preparation_leaves_nothing(folder, digits):
    (folder / LABELS).write_bytes(idx([1]))
    with pytest.raises(ValueError, match="expected .n, 32, 32, 1. and a label for each"):
        MNIST.images("test")
    assert not (folder / "prepared").exists()
