"""ImageNet at 64×64: the 1,000-class downsampled set of the paper.

Its publisher asks for an account, so it is not downloaded: put the npz archives, or the batches unpacked from
them, into the data folder. The published validation set is the test split. The training split takes 16 GB.
"""

import io
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np

from .archives import MEBIBYTE, npz_arrays, zip_members
from .dataset import Dataset, File, Pixels, Source

SIZE = 64
LARGEST = 4096 * MEBIBYTE  # a batch has 1.5 GiB
BATCHES = tuple(f"train_data_batch_{i}.npz" for i in range(1, 11))


def _joined(batches: Iterable[tuple[Path, io.BytesIO | None]]) -> Pixels:
    pixels, labels = [], []
    for path, content in batches:
        data, classes = npz_arrays(path, "data", "labels", largest=LARGEST, content=content)
        if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3 * SIZE * SIZE or len(data) != len(classes):
            raise ValueError(f"{path} holds {data.dtype} of shape {data.shape}; expected bytes (n, 12288).")
        pixels.append(data)
        labels.append(np.asarray(classes, np.int32) - 1)  # published as 1…1000
    values = np.concatenate(pixels).reshape(-1, 3, SIZE, SIZE)
    return Pixels(np.ascontiguousarray(values.transpose(0, 2, 3, 1)), np.concatenate(labels))


def read_batches(*paths: Path) -> Pixels:
    return _joined((path, None) for path in paths)


def read_archives(*paths: Path) -> Pixels:
    def wanted(name: str) -> bool:
        return PurePosixPath(name).suffix == ".npz"

    def batches() -> Iterable[tuple[Path, io.BytesIO]]:
        for path in paths:
            members = dict(zip_members(path, wanted=wanted, largest=LARGEST, total=16 * LARGEST))
            for name in sorted(members, key=lambda name: (len(name), name)):  # batch 10 after batch 9
                yield path, io.BytesIO(members[name])
            if not members:
                raise ValueError(f"{path} holds no npz batch; take the archives whose names end in _npz.zip.")

    return _joined(batches())


def _archives(*names: str, count: int) -> Source:
    return Source(tuple(File(name) for name in names), read_archives, count)


IMAGENET64 = Dataset(
    name="imagenet64",
    title="ImageNet, 1,000 classes, 64×64 colour",
    licence="ImageNet terms: non-commercial research",
    citation="Chrabaszcz, Loshchilov and Hutter (2017). A downsampled variant of ImageNet as an alternative to the "
    "CIFAR datasets. arXiv:1707.08819.",
    homepage="https://image-net.org/download-images.php after signing in",
    pattern_shape=(SIZE, SIZE, 3),
    levels=255,
    version=1,
    sources={
        "train": (
            _archives("Imagenet64_train_part1_npz.zip", "Imagenet64_train_part2_npz.zip", count=1_281_167),
            Source(tuple(File(name) for name in BATCHES), read_batches, count=1_281_167),
        ),
        "test": (
            _archives("Imagenet64_val_npz.zip", count=50_000),
            Source((File("val_data.npz"),), read_batches, count=50_000),
        ),
    },
)
load = IMAGENET64.load
