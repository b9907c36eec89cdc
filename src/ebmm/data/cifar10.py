"""CIFAR-10: 60,000 colour photographs of 32×32 pixels in ten classes."""

import io
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .archives import MEBIBYTE, gunzipped, tar_members
from .dataset import Dataset, File, Pixels, Source

SIZE = 32
RECORD = 1 + 3 * SIZE * SIZE
LARGEST = 64 * MEBIBYTE  # a batch of 10,000 records has 29 MiB


def images_of_records(batches: Iterable[tuple[str, bytes]], path: Path) -> Pixels:
    """The binary form: a label and 3,072 values, channel by channel, an image."""
    records = []
    for name, content in sorted(batches):
        if len(content) % RECORD or not content:
            raise ValueError(f"{path}: {name} has {len(content):,} bytes; expected records of {RECORD:,} bytes.")
        records.append(np.frombuffer(content, np.uint8).reshape(-1, RECORD))
    if not records:
        raise ValueError(f"{path} lacks the batches of this split; expected the published archive.")
    joined = np.concatenate(records)
    return Pixels(_images(joined[:, 1:]), joined[:, 0])


def images_of_dictionaries(batches: Iterable[tuple[str, bytes]], path: Path) -> Pixels:
    """The Python form: a pickled dictionary with `data` and `labels`."""
    pixels, labels = [], []
    for name, content in sorted(batches):
        batch = _Harmless(io.BytesIO(content), encoding="bytes").batch(f"{path}: {name}")
        pixels.append(batch[0])
        labels.append(batch[1])
    if not pixels:
        raise ValueError(f"{path} lacks the batches of this split; expected the published archive.")
    return Pixels(_images(np.concatenate(pixels)), np.concatenate(labels))


def _images(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 3, SIZE, SIZE).transpose(0, 2, 3, 1)


class _Array:
    """Stands for a NumPy array in a pickle: it keeps the state, and nothing of NumPy is run."""

    def __init__(self, *_: Any):
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state


class _Harmless(pickle.Unpickler):
    """Reads the dictionaries of CIFAR-10 and nothing else: a pickle that names anything but an array is refused."""

    ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype"})

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in self.ALLOWED:
            return _Array
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def batch(self, what: str) -> tuple[np.ndarray, np.ndarray]:
        try:
            loaded = self.load()
            labels = np.array(loaded[b"labels"], np.uint8)
            *_, content = loaded[b"data"].state
            return np.frombuffer(content, np.uint8).reshape(len(labels), RECORD - 1), labels
        except Exception as error:  # a damaged pickle can fail in any way
            raise ValueError(f"{what} is damaged or not a batch of CIFAR-10 ({error}).") from None


TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = ("test_batch",)
# Of the files inside the archives, for those who have them unpacked.
BINARY_SHA256 = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
PYTHON_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
ADDRESS = "https://www.cs.toronto.edu/~kriz"


def _in_tar(path: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    def wanted(name: str) -> bool:
        return PurePosixPath(name).name in names

    return tar_members(path, wanted=wanted, largest=LARGEST)


def _unpacked(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    return ((path.name, gunzipped(path, largest=LARGEST)) for path in paths)


def _sources(batches: tuple[str, ...]) -> tuple[Source, ...]:
    binary_names = tuple(f"{batch}.bin" for batch in batches)
    binary = File("cifar-10-binary.tar.gz", f"{ADDRESS}/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530")
    python = File("cifar-10-python.tar.gz", f"{ADDRESS}/cifar-10-python.tar.gz", "md5:c58f30108f718f92721af3b95e74349a")
    binaries = tuple(
        File(f"cifar-10-batches-bin/{batch}.bin", checksum=f"sha256:{BINARY_SHA256[batch]}") for batch in batches
    )
    pythons = tuple(File(f"cifar-10-batches-py/{batch}", checksum=f"md5:{PYTHON_MD5[batch]}") for batch in batches)
    return (
        Source((binary,), lambda path: images_of_records(_in_tar(path, binary_names), path)),
        Source((python,), lambda path: images_of_dictionaries(_in_tar(path, batches), path)),
        Source(binaries, lambda *paths: images_of_records(_unpacked(paths), paths[0].parent)),
        Source(pythons, lambda *paths: images_of_dictionaries(_unpacked(paths), paths[0].parent)),
    )


CIFAR10 = Dataset(
    name="cifar10",
    title="CIFAR-10, 32×32 colour",
    licence="none stated; its authors ask to be cited",
    citation="Krizhevsky (2009). Learning multiple layers of features from tiny images. University of Toronto.",
    homepage=f"{ADDRESS}/cifar.html",
    pattern_shape=(SIZE, SIZE, 3),
    levels=255,
    version=1,
    sources={"train": _sources(TRAIN), "test": _sources(TEST)},
)
load = CIFAR10.load
