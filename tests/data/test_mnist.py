"""MNIST from its published files, compressed or not, and from the compact file."""

import gzip

import numpy as np
import pytest
from archives_for_tests import enlarged, idx, made, npz, of_any_size, own_folder

from ebmm.data import DATASETS
from ebmm.data.mnist import read_idx

MNIST = of_any_size(DATASETS["mnist"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return own_folder(tmp_path, monkeypatch)


@pytest.fixture
def digits(rng):
    return rng.integers(0, 256, (6, 28, 28), np.uint8)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_the_published_files_give_enlarged_bits(compressed, split, prefix, folder, digits):
    for name, array in (("images-idx3-ubyte", digits), ("labels-idx1-ubyte", [3, 1, 4, 1, 5, 9])):
        content = gzip.compress(idx(array)) if compressed else idx(array)
        (folder / f"{prefix}-{name}{'.gz' if compressed else ''}").write_bytes(content)
    images, labels = made(MNIST, folder).load(split)
    np.testing.assert_array_equal(images, enlarged(digits))
    np.testing.assert_array_equal(labels, [3, 1, 4, 1, 5, 9])


def test_the_compact_file_gives_the_same(folder, digits):
    (folder / "mnist_test.npz").write_bytes(npz(images=digits, labels=np.array([3, 1, 4, 1, 5, 9], np.uint8)))
    images, labels = MNIST.load("test")
    np.testing.assert_array_equal(images, enlarged(digits))
    np.testing.assert_array_equal(labels, [3, 1, 4, 1, 5, 9])


@pytest.mark.parametrize("array", [np.zeros((2, 784), np.uint8), np.zeros((2, 28, 28))])
def test_a_compact_file_of_other_arrays_is_refused(array, folder):
    (folder / "mnist_test.npz").write_bytes(npz(images=array, labels=np.zeros(2, np.uint8)))
    with pytest.raises(ValueError, match="mnist_test.npz holds .* of shape .*; expected bytes .n, height, width."):
        MNIST.load("test")


def test_a_label_is_needed_for_every_image(folder, digits):
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(digits))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx([1, 2]))
    with pytest.raises(ValueError, match=r"gave images of shape \(6, 32, 32, 1\) and 2 labels"):
        MNIST.load("test")


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\x08", b"\0\0\x0d\x01\0\0\0\0", b"\x08\0\0\x01\0\0\0\0", b"\0\0\x08\x03\0"]
)
def test_what_is_no_idx_file_is_refused(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="file is not an idx file of bytes"):
        read_idx(tmp_path / "file")


@pytest.mark.parametrize("change", [-1, 1])
def test_an_idx_file_of_another_length_than_it_says_is_refused(change, tmp_path, digits):
    content = idx(digits)
    (tmp_path / "file").write_bytes(content[:-1] if change < 0 else content + b"1")
    with pytest.raises(ValueError, match="file is truncated: it holds 4,70.* values; expected shape .6, 28, 28."):
        read_idx(tmp_path / "file")


def test_a_size_beyond_all_memory_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"\0\0\x08\x04" + b"\xff" * 16 + b"few")
    with pytest.raises(ValueError, match="file is truncated"):
        read_idx(tmp_path / "file")


def test_files_without_a_checksum_have_to_be_complete(folder):
    """The uncompressed files have none; a part of the digits is not MNIST."""
    (folder / "mnist_test.npz").write_bytes(npz(images=np.zeros((3, 28, 28), np.uint8), labels=np.zeros(3, np.uint8)))
    with pytest.raises(ValueError, match="mnist_test.npz in .* holds 3 images; expected 10,000"):
        DATASETS["mnist"].load("test")
