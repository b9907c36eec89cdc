"""Omniglot: 32,460 drawings of 1,623 characters from 50 alphabets, as 32×32 bits with ink = 1.

Train is the background set, test the evaluation set: other alphabets, other characters. Labels count the
characters of a split. Drawings of 105×105 are shrunk with Pillow's BOX filter and are ink where the mean of the
box is at least a half, as Pillow rounds it. The paper does not say how it shrank them; this keeps 82.9 pixels of
ink a drawing in train and 89.7 in test.
"""

from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from .archives import MEBIBYTE, npz_arrays, zip_members
from .dataset import Dataset, File, Pixels, Source
from .pictures import decode_all

SIZE, DRAWN = 32, 105
COUNTS = {"train": 19_280, "test": 13_180}


def shrink(ink: np.ndarray) -> np.ndarray:
    """Bits [32, 32, 1] of a drawing [105, 105] that is true or 1 where there is ink."""
    drawing = Image.fromarray(ink.astype(np.uint8) * 255)
    small = np.asarray(drawing.resize((SIZE, SIZE), Image.Resampling.BOX))
    return (small > 127.5).astype(np.uint8)[..., None]


def read_zip(path: Path) -> Pixels:
    """The published archive of PNG files, black on white: SET/ALPHABET/CHARACTER/DRAWING.png."""

    def is_drawing(name: str) -> bool:
        parts = PurePosixPath(name).parts
        return len(parts) == 4 and parts[0].startswith("images_") and name.endswith(".png")

    def convert(drawing: Image.Image) -> np.ndarray:
        return shrink(np.asarray(drawing.convert("L")) < 128)

    names, pixels = decode_all(
        path,
        zip_members(path, wanted=is_drawing, largest=MEBIBYTE),
        convert,
        size=(DRAWN, DRAWN),
        what="Preparing Omniglot",
    )
    characters = [str(PurePosixPath(name).parent) for name in names]
    return Pixels(pixels, np.unique(characters, return_inverse=True)[1])


def read_npz(path: Path, *, split: str) -> Pixels:
    """A compact file with the bits of all drawings, eight a byte."""
    packed, labels = npz_arrays(path, f"{split}_images", f"{split}_labels", largest=256 * MEBIBYTE)
    if packed.dtype != np.uint8 or packed.shape[1:] != (DRAWN, (DRAWN + 7) // 8):
        raise ValueError(f"{path} holds {packed.dtype} of shape {packed.shape}; expected packed bits (n, 105, 14).")
    return Pixels(np.stack([shrink(drawing) for drawing in np.unpackbits(packed, axis=2, count=DRAWN)]), labels)


ADDRESS = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
CITATION = (
    "Lake, Salakhutdinov and Tenenbaum (2015). Human-level concept learning through probabilistic program "
    "induction. Science 350(6266), 1332-1338."
)


def _sources(archive: str, md5: str, split: str) -> tuple[Source, ...]:
    official = File(f"{archive}.zip", f"{ADDRESS}/{archive}.zip", f"md5:{md5}")
    compact = Source((File("omniglot.npz"),), partial(read_npz, split=split), count=COUNTS[split])
    return Source((official,), read_zip), compact


OMNIGLOT = Dataset(
    name="omniglot",
    title="Omniglot, 32×32 bits",
    licence="MIT",
    citation=CITATION,
    homepage="https://github.com/brendenlake/omniglot",
    pattern_shape=(SIZE, SIZE, 1),
    levels=1,
    version=1,
    sources={
        "train": _sources("images_background", "68d2efa1b9178cc56df9314c21c6e718", "train"),
        "test": _sources("images_evaluation", "6b91aef0f799c5bb55b94e3f2daec811", "test"),
    },
)
load = OMNIGLOT.load
