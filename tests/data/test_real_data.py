"""Facts about the real data, where it is in the data folder; skipped where it is not.

The hashes are SHA-256 sums of bytes [n, height, width, channels] and of labels as 32-bit whole numbers, computed
from the raw files without this library: Omniglot's drawings through Pillow's BOX filter and MNIST's through its
BILINEAR filter, both compared with 127.5; CIFAR-10's records cut at 1, 1,025 and 2,049 bytes, with the three
channels stacked on the last axis.
"""

import hashlib

import numpy as np
import pytest
from archives_for_tests import as_bytes, from_jpeg

from ebmm.data import DATASETS
from ebmm.data.dataset import data_folder
from ebmm.data.omniglot_sample import chosen

SHA256 = {
    ("omniglot", "train"): (
        "710e3299de58c0ccc56c1443b1bf694268b1354f5cc30bbc7c32376847cb7aee",
        "794dffee0225b7c29313dbea4238c15eb832c03caf40c792e861fed90d4a7920",
    ),
    ("omniglot", "test"): (
        "1547039adea2173ec9dd10267095fc4872583b3a940d6a6f7b0962bde8995ae2",
        "5a60fa10a473d975d0beed25acd47b140feee175d8c63cc011ca6f3cda49f23d",
    ),
    ("cifar10", "train"): (
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "1431253c7e60f5a2b7e2531aeca20b26a5e5951dcc4977b9c457ebfc43aedb75",
    ),
    ("cifar10", "test"): (
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "46759f9470c7bc483fc69c725b42c97033013de7690e19b600cf30381a76b9e5",
    ),
    ("mnist", "test"): (
        "e2139663aafb4a5047a64c1166f90ffeb08d016ff9e6b95f3af23666b1819f6e",
        "52aa149c856ca033d02e1d2e5cc61033b4c56ed4a56f0edc328206a178c42126",
    ),
}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Gives a split as it is prepared from its source now, and skips the test where there is none.

    The folder that it is read from has links to the files, and no room for prepared arrays.
    """
    folder = tmp_path_factory.mktemp("real")
    (folder / "prepared").touch()
    found = {}

    def images(name, split):
        if (name, split) not in found:
            source = DATASETS[name].source(split)
            if source is None:
                pytest.skip(f"{name} {split} is not in the data folder")
            for path, link in zip(source.paths(data_folder()), source.paths(folder), strict=True):
                link.parent.mkdir(exist_ok=True)
                if not link.exists():
                    link.symlink_to(path.resolve())
            found[name, split] = DATASETS[name].images(split, folder=folder, fetch=False)
        return found[name, split]

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("ebmm.data.dataset.user_folder", lambda: folder)
        yield images


def pixels_of(images):
    if images.levels == 1:
        return np.unpackbits(images.stored, axis=1).reshape(-1, *images.pattern_shape)
    return images.stored.reshape(-1, *images.pattern_shape)


@pytest.mark.parametrize(
    ("name", "split", "counts"),
    [
        ("omniglot", "train", [20] * 964),
        ("omniglot", "test", [20] * 659),
        ("cifar10", "train", [5000] * 10),
        ("cifar10", "test", [1000] * 10),
        ("mnist", "train", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("mnist", "test", [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    ],
)
def test_images_of_each_class(name, split, counts, real):
    np.testing.assert_array_equal(np.bincount(real(name, split).labels), counts)


@pytest.mark.parametrize(("split", "whole", "part"), [("train", 500, 100), ("test", 50, 20)])
def test_tiny_imagenet_has_equally_many_of_200_classes(split, whole, part, real):
    counts = np.bincount(real("tiny-imagenet", split).labels)
    assert counts.tolist() in ([whole] * 200, [part] * 200)  # the archive, or the compact subset


@pytest.mark.parametrize(("name", "split"), SHA256)
def test_images_and_labels_are_those_computed_without_the_library(name, split, real):
    images = real(name, split)
    found = (pixels_of(images), np.asarray(images.labels, np.int32))
    assert tuple(hashlib.sha256(array.tobytes()).hexdigest() for array in found) == SHA256[name, split]


@pytest.mark.parametrize("name", ["omniglot", "cifar10", "mnist", "tiny-imagenet"])
def test_values_lie_between_zero_and_one(name, real):
    images = real(name, "test")
    some = np.asarray(images.take(np.arange(500)))
    assert (some.min(), some.max()) == (0, 1)
    np.testing.assert_array_equal(as_bytes(some), pixels_of(images)[:500] * (255 // images.levels))


@pytest.mark.parametrize(("split", "ink"), [("train", 82.93), ("test", 89.71)])
def test_drawings_have_this_much_ink(split, ink, real):
    assert abs(pixels_of(real("omniglot", split)).sum(axis=(1, 2, 3)).mean() - ink) < 0.005


def test_photographs_have_the_known_means(real):
    mean = pixels_of(real("cifar10", "train")).mean(axis=(0, 1, 2)) / 255
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=5e-5)


@pytest.mark.parametrize(("split", "file"), [("train", "tinyimagenet64_train.npz"), ("test", "tinyimagenet64_val.npz")])
def test_photographs_are_what_pillow_decodes(split, file, real):
    if not (data_folder() / file).is_file():
        pytest.skip(f"{file} is not in the data folder")
    images = real("tiny-imagenet", split)
    with np.load(data_folder() / file, allow_pickle=False) as raw:
        content, offsets = raw["jpeg_bytes"].tobytes(), raw["offsets"]
        np.testing.assert_array_equal(images.labels, raw["labels"])
    for i in range(0, len(images), 101):
        np.testing.assert_array_equal(pixels_of(images)[i], from_jpeg(content[offsets[i] : offsets[i + 1]]))


@pytest.mark.parametrize("name", ["omniglot", "cifar10", "tiny-imagenet"])
def test_no_test_image_is_among_the_training_images(name, real):
    train, test = real(name, "train"), real(name, "test")
    assert not set(train.hashes()) & set(test.hashes())
    assert len(set(test.hashes())) == len(test)


def test_the_bundled_sample_is_a_part_of_the_evaluation_set(real):
    images, sample = real("omniglot", "test"), DATASETS["omniglot-sample"].images("test")
    places = chosen(np.asarray(images.labels))
    np.testing.assert_array_equal(sample.stored, images.stored[places])
    np.testing.assert_array_equal(sample.labels, np.unique(images.labels[places], return_inverse=True)[1])
    assert not set(sample.hashes()) & set(real("omniglot", "train").hashes())
