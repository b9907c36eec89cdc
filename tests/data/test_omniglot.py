"""Omniglot from its published archives and from the compact file."""

import io
import struct
import zlib

import numpy as np
import pytest
from archives_for_tests import drawings, made, npz, of_any_size, own_folder, png, shrunk, write_zip
from PIL import Image

from ebmm.data import DATASETS
from ebmm.data.omniglot import read_zip

OMNIGLOT = of_any_size(DATASETS["omniglot"])
DRAWN = {"Arcadian/character01": 3, "Arcadian/character02": 1, "Braille/character01": 4, "Braille-Old/character01": 2}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return own_folder(tmp_path, monkeypatch)


def members(ink, archive="images_background"):
    """The names of ten drawings and an archive of them, in no order, with the folders and what a Mac adds."""
    names = [f"{archive}/{character}/0009_{i:02}.png" for character, count in DRAWN.items() for i in range(count)]
    files = [(name, png(drawing)) for name, drawing in zip(names, ink, strict=True)]
    folders = [(f"{archive}/", b""), *((f"{archive}/{character}/", b"") for character in DRAWN)]
    stray = [(f"__MACOSX/{archive}/Arcadian/character01/._0000_01.png", b"Mac"), (f"{archive}/Arcadian/.DS_Store", b"")]
    return names, [*files[5:], *folders, *stray, *files[:5]]


def test_the_archives_give_bits_of_ink_and_labels_in_the_order_of_the_characters(folder, rng):
    ink = drawings(rng, 10)
    for archive in ("images_background", "images_evaluation"):
        names, content = members(ink, archive)
        write_zip(folder / f"{archive}.zip", content)
        ink = ink[::-1]
    order = np.argsort(names)
    characters = sorted(DRAWN)
    expected_labels = [characters.index("/".join(names[i].split("/")[1:3])) for i in order]
    for split, expected in (("train", ink), ("test", ink[::-1])):
        images, labels = made(OMNIGLOT, folder).load(split)
        assert images.dtype == np.float32
        np.testing.assert_array_equal(images, shrunk(expected[order]))
        np.testing.assert_array_equal(labels, expected_labels)


def test_the_compact_file_gives_the_same_as_the_archive(folder, rng):
    ink = drawings(rng, 10)
    names, content = members(ink)
    write_zip(folder / "images_background.zip", content)
    images, labels = made(OMNIGLOT, folder).load("train")
    (folder / "images_background.zip").unlink()
    packed = np.packbits(ink[np.argsort(names)], axis=2)
    compact = {f"{split}_images": packed for split in ("train", "test")}
    compact |= {f"{split}_labels": labels.astype(np.int16) for split in ("train", "test")}
    (folder / "omniglot.npz").write_bytes(npz(**compact))
    for split in ("train", "test"):
        same_images, same_labels = OMNIGLOT.load(split)
        np.testing.assert_array_equal(same_images, images)
        np.testing.assert_array_equal(same_labels, labels)


def test_the_archive_is_preferred_to_the_compact_file(folder, rng):
    ink = drawings(rng, 10)
    write_zip(folder / "images_background.zip", members(ink)[1])
    (folder / "omniglot.npz").write_bytes(b"not looked at")
    assert str(OMNIGLOT.source("train")) == "images_background.zip"
    assert len(made(OMNIGLOT, folder).images("train")) == 10


def test_a_compact_file_of_other_arrays_is_refused(folder):
    (folder / "omniglot.npz").write_bytes(npz(train_images=np.zeros((3, 105, 105), np.uint8), train_labels=np.zeros(3)))
    with pytest.raises(ValueError, match="omniglot.npz holds uint8 of shape .3, 105, 105.; expected packed bits"):
        OMNIGLOT.load("train")


def test_an_archive_without_pictures_is_refused(tmp_path):
    write_zip(tmp_path / "images.zip", [("images_background/readme.txt", b"none"), ("elsewhere/a/b/c.png", b"no")])
    with pytest.raises(ValueError, match="images.zip holds no picture"):
        read_zip(tmp_path / "images.zip")


def bomb(width, height):
    """A PNG of a few bytes that would be unpacked to width × height bits."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">2I5B", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width // 8 + 1) * height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(20_000, 20_000), (10_000, 10_000), (106, 105)])
def test_a_picture_of_another_size_is_refused_before_it_is_decoded(size, tmp_path, monkeypatch):
    content = bomb(*size)
    assert len(content) < 100_000
    monkeypatch.setattr(Image.Image, "convert", None)
    write_zip(tmp_path / "images.zip", [("images_background/Greek/character01/0001_01.png", content)])
    with pytest.raises(ValueError, match="images.zip: .*0001_01.png is not a picture that can be used"):
        read_zip(tmp_path / "images.zip")


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "gif"])
def test_a_damaged_picture_is_named(damage, tmp_path, rng):
    sound = png(drawings(rng, 1)[0])
    gif = io.BytesIO()
    Image.new("L", (105, 105)).save(gif, "GIF")
    content = {"truncated": sound[: len(sound) // 2], "empty": b"", "text": b"text" * 99, "gif": gif.getvalue()}[damage]
    write_zip(tmp_path / "images.zip", [("images_background/Greek/character01/0001_01.png", content)])
    with pytest.raises(ValueError, match="images.zip: .*0001_01.png is not a picture that can be used"):
        read_zip(tmp_path / "images.zip")


def test_a_picture_that_takes_too_much_of_the_archive_is_refused(tmp_path):
    write_zip(tmp_path / "images.zip", [("images_background/Greek/character01/0001_01.png", bytes(2**20 + 1))])
    with pytest.raises(ValueError, match="0001_01.png would take 1,048,577 bytes"):
        read_zip(tmp_path / "images.zip")
