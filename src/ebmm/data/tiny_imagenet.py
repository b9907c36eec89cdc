"""Tiny-ImageNet-200: ImageNet photographs of 200 classes at 64×64, freely downloadable.

Not what the paper used, which is `imagenet64`, 1,000 classes at the same size: a stand-in, and named as such
beside every number. The published validation set is the test split; its own test set has no labels.
"""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from .archives import MEBIBYTE, npz_arrays, zip_members
from .dataset import Dataset, File, Pixels, Source
from .pictures import decode_all

SIZE = 64


def _colour(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture.convert("RGB"))  # some are grey


def _decode(path: Path, contents: Iterable[tuple[str, bytes]]) -> tuple[list[str], np.ndarray]:
    return decode_all(path, contents, _colour, size=(SIZE, SIZE), what="Preparing Tiny-ImageNet")


def _as_labels(classes: list[str]) -> np.ndarray:
    return np.unique(classes, return_inverse=True)[1]


def read_train(path: Path) -> Pixels:
    """tiny-imagenet-200/train/CLASS/images/NAME.JPEG"""

    def wanted(name: str) -> bool:
        parts = PurePosixPath(name).parts
        return len(parts) == 5 and parts[1] == "train" and name.endswith(".JPEG")

    names, pixels = _decode(path, zip_members(path, wanted=wanted, largest=MEBIBYTE))
    return Pixels(pixels, _as_labels([PurePosixPath(name).parts[2] for name in names]))


def read_validation(path: Path) -> Pixels:
    """tiny-imagenet-200/val/images/NAME.JPEG, with the classes in val_annotations.txt beside."""

    def is_list(name: str) -> bool:
        return PurePosixPath(name).parts[1:] == ("val", "val_annotations.txt")

    def is_picture(name: str) -> bool:
        parts = PurePosixPath(name).parts
        return len(parts) == 4 and parts[1] == "val" and name.endswith(".JPEG")

    lists = [content for _, content in zip_members(path, wanted=is_list, largest=8 * MEBIBYTE)]
    if len(lists) != 1:
        raise ValueError(f"{path} lacks val_annotations.txt; expected the published archive.")
    rows = (line.split("\t") for line in lists[0].decode("utf-8", "replace").splitlines())
    classes = {row[0]: row[1] for row in rows if len(row) >= 2}
    names, pixels = _decode(path, zip_members(path, wanted=is_picture, largest=MEBIBYTE))
    files = [PurePosixPath(name).name for name in names]
    unlisted = [file for file in files if file not in classes]
    if unlisted:
        raise ValueError(f"{path}: val_annotations.txt does not name the class of {unlisted[0]}.")
    return Pixels(pixels, _as_labels([classes[file] for file in files]))


def read_npz(path: Path) -> Pixels:
    """A compact subset: the JPEG files one after the other, and where each begins."""
    content, offsets, labels = npz_arrays(path, "jpeg_bytes", "offsets", "labels", largest=1024 * MEBIBYTE)
    if len(offsets) != len(labels) + 1 or np.any(np.diff(offsets) < 0) or offsets[0] < 0 or offsets[-1] > len(content):
        raise ValueError(f"{path} is damaged: its offsets do not divide its bytes into {len(labels)} pictures.")
    pieces = ((f"picture {i}", content[offsets[i] : offsets[i + 1]].tobytes()) for i in range(len(labels)))
    _, pixels = _decode(path, pieces)
    return Pixels(pixels, labels)


ARCHIVE = File(
    "tiny-imagenet-200.zip", "http://cs231n.stanford.edu/tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de"
)
TINY_IMAGENET = Dataset(
    name="tiny-imagenet",
    title="Tiny-ImageNet-200, 64×64 colour (not the paper's 1,000 classes)",
    licence="ImageNet terms: non-commercial research",
    citation="Le and Yang (2015). Tiny ImageNet visual recognition challenge. Stanford CS 231N.",
    homepage="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    pattern_shape=(SIZE, SIZE, 3),
    levels=255,
    version=1,
    sources={
        "train": (Source((ARCHIVE,), read_train), Source((File("tinyimagenet64_train.npz"),), read_npz)),
        "test": (Source((ARCHIVE,), read_validation), Source((File("tinyimagenet64_val.npz"),), read_npz)),
    },
)
load = TINY_IMAGENET.load
