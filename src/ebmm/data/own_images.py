"""People's own images: found, decoded with care, and brought to the shape and the values that a model holds."""

import glob
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageOps

from ..interface import Domain

Ink = Literal["dark", "light"]
LARGEST = 64_000_000  # pixels: a large photograph, 0.2 GB when decoded


@dataclass(frozen=True)
class OwnImages:
    """Patterns [n, height, width, channels], the files that they come from, and what there is to say of them."""

    patterns: np.ndarray
    paths: list[Path]
    notes: list[str]


def find_images(given: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The files that are meant by files, folders and globs, each once, and a line for what was passed over."""
    if not given:
        raise ValueError("got no image; expected files, folders or globs such as 'drawings/*.png'.")
    found: dict[Path, None] = {}
    notes = []
    for text in given:
        try:
            images, others = _meant_by(text)
        except PermissionError:
            raise ValueError(f"{text} may not be read; change its permissions.") from None
        if others:
            notes.append(f"{text}: passed over {others} other file{'' if others == 1 else 's'}.")
        if not images:
            raise ValueError(f"{text}: no image there.")
        found |= dict.fromkeys(images)
    return list(found), notes


def _meant_by(text: str) -> tuple[list[Path], int]:
    """The images that a file, a folder or a glob stands for, and the number of files that were passed over."""
    path = Path(text)
    if path.is_dir():
        return _in_folder(path)
    if path.exists() or not glob.has_magic(text):
        return [path], 0
    names = glob.glob(text, recursive=True)  # noqa: PTH207 (a Path cannot glob what may be absolute)
    return sorted(Path(name) for name in names if Path(name).is_file()), 0


def _in_folder(folder: Path) -> tuple[list[Path], int]:
    """The images in a folder, by their endings, and the number of other files; hidden files and folders are neither."""
    endings = Image.registered_extensions()
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
    images = [path for path in files if path.suffix.lower() in endings]
    return images, len(files) - len(images)


def load_images(paths: Sequence[Path], shape: tuple[int, ...], domain: Domain, *, ink: Ink = "dark") -> OwnImages:
    """Images as patterns of this shape: fitted into it on blank paper and, with one channel, made black and white.

    Ink is the highest value of the domain and paper the lowest, as in drawings of Omniglot; `ink` says which is which
    in the files. Whatever cannot be used is refused before anything is returned.
    """
    if len(shape) != 3 or shape[2] not in (1, 3) or domain is None:
        raise ValueError(
            f"the model holds patterns of shape {shape} with values in {domain}; expected one of images, "
            "(height, width, 1 or 3)."
        )
    patterns, notes, sizes = [], [], set()
    for path in paths:
        image = decode(path)
        sizes.add(image.size)
        pattern = as_bits(image, shape, ink=ink) if shape[2] == 1 else as_colours(image, shape)
        patterns.append(domain[0] + (domain[1] - domain[0]) * pattern)
        if shape[2] == 1 and not 0 < pattern.mean() < 0.5:
            other = "light" if ink == "dark" else "dark"
            blank = f"{path}: blank once it is black and white."
            notes.append(
                f"{path}: more ink than paper; if its ink is {other}, use --ink {other}." if pattern.any() else blank
            )
    height, width = shape[:2]
    resized = f"fitted into {width}×{height} pixels" if sizes != {(width, height)} else f"{width}×{height} pixels"
    changed = ", made black and white" if shape[2] == 1 else ""
    notes.insert(0, f"{len(paths)} image{'' if len(paths) == 1 else 's'}, {resized}{changed}.")
    return OwnImages(np.stack(patterns).astype(np.float32), list(paths), notes)


def decode(path: Path) -> Image.Image:
    """The first frame of an image file, upright and on white paper; or a ValueError that says why it cannot be used."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected an image.")
    if not path.is_file():
        raise ValueError(f"{path} is no file; expected an image.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # oddities in a file's metadata, and sizes that are judged here
            with Image.open(path) as image:
                width, height = image.size
                if width * height > LARGEST:
                    raise ValueError(f"it is enormous, {width:,}×{height:,} pixels; shrink it first")
                upright = ImageOps.exif_transpose(image)
                return _opaque(upright)
    except PermissionError:
        raise ValueError(f"{path} may not be read; change its permissions.") from None
    except Image.DecompressionBombError as error:
        raise ValueError(f"{path} cannot be used: it is enormous ({error}); shrink it first.") from None
    except Exception as error:  # decoders of some hundred formats fail in as many ways
        reason = "it is no image, or of an unknown kind" if isinstance(error, Image.UnidentifiedImageError) else error
        raise ValueError(f"{path} cannot be used: {str(reason).rstrip('.')}.") from None


def _opaque(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB") if image.mode not in ("L", "I;16", "I", "F") else _eight_bits(image)
    layered = image.convert("RGBA")
    paper = Image.new("RGBA", layered.size, "white")
    return Image.alpha_composite(paper, layered).convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Greys of more than eight bits, stretched from the darkest to the lightest; eight bits as they are."""
    if image.mode == "L":
        return image.copy()
    values = np.asarray(image, np.float64)
    low, high = values.min(), values.max()
    scaled = (values - low) / (high - low) if high > low else np.ones_like(values)
    return Image.fromarray((255 * scaled).round().astype(np.uint8))


def as_bits(image: Image.Image, shape: tuple[int, ...], *, ink: Ink) -> np.ndarray:
    """Bits [height, width, 1], 1 where there is ink: below Otsu's threshold of the shrunk image's greys."""
    grey = image.convert("L")
    if ink == "light":
        grey = ImageOps.invert(grey)
    small = np.asarray(_fitted(grey, shape, paper=255))
    return (small < threshold(small)).astype(np.float32)[..., None]


def as_colours(image: Image.Image, shape: tuple[int, ...]) -> np.ndarray:
    """Colours [height, width, 3] in [0, 1]."""
    return np.asarray(_fitted(image.convert("RGB"), shape, paper=(255, 255, 255)), np.float32) / 255


def _fitted(image: Image.Image, shape: tuple[int, ...], *, paper: int | tuple[int, ...]) -> Image.Image:
    """The whole image in the middle of paper of this shape, shrunk or enlarged without distorting it."""
    size = (shape[1], shape[0])
    return image.copy() if image.size == size else ImageOps.pad(image, size, Image.Resampling.BOX, color=paper)


def threshold(grey: np.ndarray) -> int:
    """The grey that splits an image best into dark and light: Otsu (1979), the largest variance between the two.

    What is below it is dark. An image of a single grey is all light.
    """
    counts = np.bincount(grey.ravel(), minlength=256).astype(float)
    below = np.cumsum(counts)
    sums = np.cumsum(counts * np.arange(256))
    above = below[-1] - below
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums / below - (sums[-1] - sums) / above) ** 2
    best = np.where(np.isfinite(between), between, 0.0)
    if best.max() <= 0:
        return 0
    places = np.flatnonzero(best >= best.max() * (1 - 1e-12))
    return int(places.mean()) + 1  # between two greys with nothing in between, the middle
