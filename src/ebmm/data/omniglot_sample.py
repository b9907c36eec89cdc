"""640 drawings of Omniglot's evaluation set that come with the package, so that everything runs without a download.

All 20 drawings of 32 characters, spread evenly over the 659. For numbers to compare, use `omniglot`.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from .archives import MEBIBYTE, npz_arrays
from .dataset import File, Pixels, Source
from .omniglot import OMNIGLOT, SIZE

CHARACTERS = 32
FOLDER = Path(__file__).parent / "bundled"


def chosen(labels: np.ndarray) -> np.ndarray:
    """The places, in the evaluation set, of the drawings that are in the sample."""
    characters = np.linspace(0, labels.max(), CHARACTERS).round()
    return np.flatnonzero(np.isin(labels, characters))


def read_npz(path: Path) -> Pixels:
    packed, labels = npz_arrays(path, "images", "labels", largest=MEBIBYTE)
    return Pixels(np.unpackbits(packed, axis=1).reshape(-1, SIZE, SIZE, 1), labels)


OMNIGLOT_SAMPLE = replace(
    OMNIGLOT,
    name="omniglot-sample",
    title="640 drawings of Omniglot's evaluation set, bundled",
    sources={"test": (Source((File("omniglot_sample.npz"),), read_npz),)},
    bundled=FOLDER,
)
load = OMNIGLOT_SAMPLE.load
