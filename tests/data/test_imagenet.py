"""The two sets of ImageNet photographs at 64×64: the published archives and what they are unpacked to."""

import numpy as np
import pytest
from archives_for_tests import as_bytes, from_jpeg, jpeg, made, npz, of_any_size, own_folder, write_zip

from ebmm.data import DATASETS

TINY, LARGE = of_any_size(DATASETS["tiny-imagenet"]), of_any_size(DATASETS["imagenet64"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return own_folder(tmp_path, monkeypatch)


@pytest.fixture
def photographs(rng):
    """JPEG files of four smooth colour images and a grey one."""
    colour = [np.kron(rng.integers(0, 256, (8, 8, 3), np.uint8), np.ones((8, 8, 1), np.uint8)) for _ in range(4)]
    return [jpeg(image) for image in [*colour, colour[0][..., 0]]]


def tiny_members(photographs):
    classes = ["n02", "n01", "n02", "n03", "n01"]
    top = "tiny-imagenet-200"
    train = [
        (f"{top}/train/{name}/images/{name}_{i}.JPEG", photographs[i])
        for i, name in sorted(enumerate(classes), reverse=True)
    ]
    boxes = [(f"{top}/train/{name}/{name}_boxes.txt", b"n01_0.JPEG\t0\t0\t1\t1\n") for name in set(classes)]
    validation = [(f"{top}/val/images/val_{i}.JPEG", content) for i, content in enumerate(photographs)]
    rows = "".join(f"val_{i}.JPEG\t{classes[-1 - i]}\t0\t32\t44\t62\n" for i in range(5))
    others = [
        (f"{top}/wnids.txt", b"n01\nn02\nn03\n"),
        (f"{top}/test/images/test_0.JPEG", photographs[0]),
        (f"{top}/", b""),
    ]
    return [*train, *boxes, *validation, (f"{top}/val/val_annotations.txt", rows.encode()), *others]


def test_the_archive_of_tiny_imagenet(folder, photographs):
    write_zip(folder / "tiny-imagenet-200.zip", tiny_members(photographs))
    dataset = made(TINY, folder)
    pixels = np.stack([from_jpeg(content) for content in photographs])
    images, labels = dataset.load("train")
    np.testing.assert_array_equal(as_bytes(images), pixels[[1, 4, 0, 2, 3]])  # by class, and then by name
    np.testing.assert_array_equal(labels, [0, 0, 1, 1, 2])
    images, labels = dataset.load("test")
    np.testing.assert_array_equal(as_bytes(images), pixels)
    np.testing.assert_array_equal(labels, [0, 2, 1, 0, 1])
    np.testing.assert_array_equal(images[4, ..., 0], images[4, ..., 2])  # the grey one


def test_the_compact_files_of_tiny_imagenet(folder, photographs):
    offsets = np.cumsum([0, *map(len, photographs)])
    content = np.frombuffer(b"".join(photographs), np.uint8)
    for file in ("tinyimagenet64_train.npz", "tinyimagenet64_val.npz"):
        (folder / file).write_bytes(
            npz(jpeg_bytes=content, offsets=offsets, labels=np.array([3, 1, 4, 1, 5], np.int16))
        )
    for split in ("train", "test"):
        images, labels = TINY.load(split)
        np.testing.assert_array_equal(as_bytes(images), [from_jpeg(each) for each in photographs])
        np.testing.assert_array_equal(labels, [3, 1, 4, 1, 5])


@pytest.mark.parametrize("offsets", [[0, 5], [0, 10, 5, 20], [-1, 5, 10, 20], [0, 5, 10, 10_000]])
def test_offsets_that_do_not_fit_are_refused(offsets, folder, photographs):
    content = np.frombuffer(photographs[0], np.uint8)[:100]
    (folder / "tinyimagenet64_val.npz").write_bytes(npz(jpeg_bytes=content, offsets=offsets, labels=[1, 2, 3]))
    with pytest.raises(ValueError, match="tinyimagenet64_val.npz is damaged: its offsets"):
        TINY.load("test")


def test_a_picture_that_the_list_does_not_name_is_refused(folder, photographs):
    members = [*tiny_members(photographs), ("tiny-imagenet-200/val/images/val_5.JPEG", photographs[0])]
    write_zip(folder / "tiny-imagenet-200.zip", members)
    with pytest.raises(ValueError, match="val_annotations.txt does not name the class of val_5.JPEG"):
        made(TINY, folder).load("test")


def test_the_list_of_classes_is_needed(folder, photographs):
    members = [member for member in tiny_members(photographs) if "annotations" not in member[0]]
    write_zip(folder / "tiny-imagenet-200.zip", members)
    with pytest.raises(ValueError, match="tiny-imagenet-200.zip lacks val_annotations.txt"):
        made(TINY, folder).load("test")


def test_a_photograph_of_another_size_is_refused(folder):
    content = jpeg(np.zeros((64, 65, 3)))
    write_zip(folder / "tiny-imagenet-200.zip", [("tiny-imagenet-200/train/n01/images/n01_0.JPEG", content)])
    with pytest.raises(ValueError, match="n01_0.JPEG is not a picture that can be used .it is 65×64, not 64×64"):
        made(TINY, folder).load("train")


def batch(images, labels):
    """As it is published: channel by channel, and labels from 1."""
    channels = np.stack([images[..., channel].reshape(len(images), -1) for channel in range(3)], axis=1)
    return npz(data=channels.reshape(len(images), -1), labels=np.asarray(labels) + 1, mean=np.zeros(12288, np.float32))


@pytest.mark.parametrize("packed", [True, False])
def test_the_batches_of_imagenet64(packed, folder, rng):
    images = rng.integers(0, 256, (22, 64, 64, 3), np.uint8)
    places = [[2 * i, 2 * i + 1] for i in range(11)]  # each image has its own label
    names = [*(f"train_data_batch_{i}.npz" for i in range(1, 11)), "val_data.npz"]
    files = [(name, batch(images[place], place)) for name, place in zip(names, places, strict=True)]
    if packed:
        for archive, part in (("train_part1", files[:5]), ("train_part2", files[5:10]), ("val", files[10:])):
            write_zip(folder / f"Imagenet64_{archive}_npz.zip", part)
    else:
        for name, content in files:
            (folder / name).write_bytes(content)
    for split, expected in (("train", range(20)), ("test", [20, 21])):
        found, labels = LARGE.load(split)
        np.testing.assert_array_equal(labels, expected)  # in the same order in both forms
        np.testing.assert_array_equal(as_bytes(found), images[labels])


def test_a_batch_of_objects_is_refused(folder):
    content = npz(data=np.array([{}], object), labels=np.ones(1, int))
    write_zip(folder / "Imagenet64_val_npz.zip", [("val_data.npz", content)])
    with pytest.raises(ValueError, match="Imagenet64_val_npz.zip holds something that is no plain array"):
        LARGE.load("test")


def test_a_zip_without_batches_is_refused(folder):
    write_zip(folder / "Imagenet64_val_npz.zip", [("val/1/picture.png", b"")])
    with pytest.raises(ValueError, match="Imagenet64_val_npz.zip holds no npz batch"):
        LARGE.load("test")


def test_a_batch_of_another_size_is_refused(folder):
    (folder / "val_data.npz").write_bytes(npz(data=np.zeros((2, 3072), np.uint8), labels=np.ones(2, int)))
    with pytest.raises(ValueError, match="val_data.npz holds uint8 of shape .2, 3072.; expected bytes .n, 12288."):
        LARGE.load("test")


def test_imagenet64_cannot_be_downloaded_and_says_where_to_put_it(folder):
    with pytest.raises(
        FileNotFoundError, match="cannot be downloaded. Put Imagenet64_val_npz.zip, or val_data.npz into"
    ):
        LARGE.load("test")
