"""MNIST digits as 32×32 bits, for a model of Omniglot to be asked about what it was not trained on.

The paper says that they were upscaled and binarised; here with Pillow's bilinear filter, and ink where the
value is above a half.
"""

import struct
from pathlib import Path

import numpy as np
from PIL import Image

from .archives import MEBIBYTE, gunzipped, npz_arrays
from .dataset import Dataset, File, Pixels, Source

SIZE = 32


def read_idx(path: Path) -> np.ndarray:
    """An array of bytes in the idx format, compressed or not."""
    content = gunzipped(path, largest=256 * MEBIBYTE)
    zeros, kind, dimensions = struct.unpack_from(">HBB", content) if len(content) >= 4 else (1, 0, 0)
    start = 4 + 4 * dimensions
    if zeros != 0 or kind != 8 or len(content) < start:
        raise ValueError(f"{path} is not an idx file of bytes; expected one of the four published files.")
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    if len(content) - start != np.prod(shape, dtype=object):
        raise ValueError(f"{path} is truncated: it holds {len(content) - start:,} values; expected shape {shape}.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _enlarged(digits: np.ndarray, labels: np.ndarray, path: Path) -> Pixels:
    if digits.ndim != 3 or digits.dtype != np.uint8:
        raise ValueError(f"{path} holds {digits.dtype} of shape {digits.shape}; expected bytes [n, height, width].")
    large = [Image.fromarray(digit).resize((SIZE, SIZE), Image.Resampling.BILINEAR) for digit in digits]
    return Pixels((np.stack([np.asarray(digit) for digit in large]) > 127.5).astype(np.uint8)[..., None], labels)


def read_files(images: Path, labels: Path) -> Pixels:
    return _enlarged(read_idx(images), read_idx(labels), images)


def read_npz(path: Path) -> Pixels:
    digits, labels = npz_arrays(path, "images", "labels", largest=256 * MEBIBYTE)
    return _enlarged(digits, labels, path)


ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist"  # a mirror: the authors' page no longer serves them


def _sources(prefix: str, count: int, images_md5: str, labels_md5: str) -> tuple[Source, Source]:
    names = (f"{prefix}-images-idx3-ubyte", images_md5), (f"{prefix}-labels-idx1-ubyte", labels_md5)
    compressed = tuple(File(f"{name}.gz", f"{ADDRESS}/{name}.gz", f"md5:{md5}") for name, md5 in names)
    return Source(compressed, read_files), Source(tuple(File(name) for name, _ in names), read_files, count)


MNIST = Dataset(
    name="mnist",
    title="MNIST, enlarged to 32×32 bits",
    licence="CC BY-SA 3.0",
    citation="LeCun, Bottou, Bengio and Haffner (1998). Gradient-based learning applied to document recognition. "
    "Proceedings of the IEEE 86(11), 2278-2324.",
    homepage="https://yann.lecun.com/exdb/mnist/",
    pattern_shape=(SIZE, SIZE, 1),
    levels=1,
    version=1,
    sources={
        "train": _sources("train", 60_000, "f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432"),
        "test": (
            *_sources("t10k", 10_000, "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
            Source((File("mnist_test.npz"),), read_npz, count=10_000),
        ),
    },
)
load = MNIST.load
