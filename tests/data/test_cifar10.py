"""CIFAR-10 from its four published forms."""

import os
import pickle
import struct

import numpy as np
import pytest
from archives_for_tests import as_bytes, made, of_any_size, own_folder, write_tar

from ebmm.data import DATASETS
from ebmm.data.cifar10 import images_of_dictionaries, images_of_records

CIFAR10 = of_any_size(DATASETS["cifar10"])
TRAIN = [f"data_batch_{i}" for i in (1, 2, 3, 4, 5)]
BATCHES = [*TRAIN, "test_batch"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return own_folder(tmp_path, monkeypatch)


@pytest.fixture
def photographs(rng):
    """Four images [32, 32, 3] and labels for each batch."""
    return {batch: (rng.integers(0, 256, (4, 32, 32, 3), np.uint8), rng.integers(0, 10, 4)) for batch in BATCHES}


def record(image, label):
    """A label, then the red, the green and the blue values, row by row."""
    return bytes([label]) + b"".join(image[:, :, channel].tobytes() for channel in range(3))


def binary(images, labels):
    return b"".join(record(image, int(label)) for image, label in zip(images, labels, strict=True))


def python(images, labels):
    data = np.stack([np.concatenate([image[:, :, channel].ravel() for channel in range(3)]) for image in images])
    batch = {b"batch_label": b"one of them", b"labels": labels.tolist(), b"data": data, b"filenames": [b"a.png"] * 4}
    return pickle.dumps(batch, protocol=3)


def write_archives(folder, photographs):
    binaries = [(f"cifar-10-batches-bin/{batch}.bin", binary(*photographs[batch])) for batch in reversed(BATCHES)]
    pythons = [(f"cifar-10-batches-py/{batch}", python(*photographs[batch])) for batch in reversed(BATCHES)]
    others = [("cifar-10-batches-py/batches.meta", b"names"), ("cifar-10-batches-py/readme.html", b"<html>")]
    write_tar(folder / "cifar-10-binary.tar.gz", [("cifar-10-batches-bin/readme.html", b"<html>"), *binaries])
    write_tar(folder / "cifar-10-python.tar.gz", [*others, *pythons])


def write_unpacked(folder, photographs):
    for name, content in (("bin", binary), ("py", python)):
        (folder / f"cifar-10-batches-{name}").mkdir()
        for batch in BATCHES:
            file = f"{batch}.bin" if name == "bin" else batch
            (folder / f"cifar-10-batches-{name}" / file).write_bytes(content(*photographs[batch]))


@pytest.mark.parametrize("write", [write_archives, write_unpacked])
@pytest.mark.parametrize("form", ["bin", "py"])
def test_every_form_gives_the_same_photographs(write, form, folder, photographs):
    write(folder, photographs)
    for unwanted in folder.glob("*py*" if form == "bin" else "*bin*"):
        unwanted.rename(folder / f"not-{unwanted.name}")
    dataset = made(CIFAR10, folder)
    for split, batches in (("train", TRAIN), ("test", ["test_batch"])):
        images, labels = dataset.load(split)
        assert form in str(dataset.source(split))
        assert images.dtype == np.float32
        assert 0 <= images.min() < images.max() <= 1
        np.testing.assert_array_equal(as_bytes(images), np.concatenate([photographs[batch][0] for batch in batches]))
        np.testing.assert_array_equal(labels, np.concatenate([photographs[batch][1] for batch in batches]))


def test_an_unpacked_file_with_another_checksum_is_refused(folder, photographs):
    write_unpacked(folder, photographs)
    with pytest.raises(ValueError, match="data_batch_1.bin has the sha256 .*; the published file has cee91656"):
        CIFAR10.load("train")


def test_an_archive_without_the_batches_is_refused(folder):
    write_tar(folder / "cifar-10-binary.tar.gz", [("cifar-10-batches-bin/readme.html", b"<html>")])
    with pytest.raises(ValueError, match="cifar-10-binary.tar.gz lacks the batches"):
        made(CIFAR10, folder).load("test")


def test_a_batch_of_a_wrong_length_is_refused(tmp_path):
    for content in (bytes(3072), bytes(3074), b""):
        with pytest.raises(ValueError, match="archive: test_batch.bin has .* bytes; expected records of 3,073 bytes"):
            images_of_records([("test_batch.bin", content)], tmp_path / "archive")


def as_python_2_wrote_it(data, labels):
    """The opcodes of a pickle of {"data": …, "labels": …} in which strings are bytes, as in the published archive."""
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
    kind = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"".join(b"M" + struct.pack("<H", size) for size in data.shape) + b"\x86"
    state = b"(K\x01" + shape + kind + b"\x89T" + struct.pack("<I", data.size) + data.tobytes() + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + state + b"U\x06labels" + numbers + b"u."


def test_a_pickle_of_python_2_is_read_as_pickle_itself_does(tmp_path, rng):
    batch = as_python_2_wrote_it(rng.integers(0, 256, (3, 3072), np.uint8), [7, 0, 9])
    expected = pickle.loads(batch, encoding="bytes")
    pixels, labels = images_of_dictionaries([("test_batch", batch)], tmp_path / "archive")
    np.testing.assert_array_equal(pixels, expected[b"data"].reshape(3, 3, 32, 32).transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(labels, expected[b"labels"])


class Command:
    """Pickled, it runs a command when it is loaded."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_a_command_is_refused_and_does_not_run_it(protocol, tmp_path):
    batch = pickle.dumps({1: Command(f"touch '{tmp_path / 'ran'}'")}, protocol=protocol)
    with pytest.raises(
        ValueError, match=f"test_batch is damaged or not a batch of CIFAR-10 .it names {os.name}.system"
    ):
        images_of_dictionaries([("test_batch", batch)], tmp_path / "archive")
    assert not (tmp_path / "ran").exists()
    pickle.loads(batch)
    assert (tmp_path / "ran").exists()  # it would have run


@pytest.mark.parametrize(
    "batch",
    [
        b"",
        b"not a pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({b"labels": [1]}),
        pickle.dumps({b"data": np.zeros((1, 3071), np.uint8), b"labels": [1]}, protocol=3),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1, 2]}, protocol=3),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": ["cat"]}, protocol=3),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1]}, protocol=3)[:-100],
    ],
)
def test_a_pickle_that_is_no_batch_is_refused(batch, tmp_path):
    with pytest.raises(ValueError, match="archive: test_batch is damaged or not a batch of CIFAR-10"):
        images_of_dictionaries([("test_batch", batch)], tmp_path / "archive")
