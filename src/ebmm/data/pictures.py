"""Decoding many small picture files: sizes are checked before anything is decoded.

One after the other: with pictures this small, threads spend more on waiting for each other than they gain.
"""

import io
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import track


def decode_all(
    path: Path,
    contents: Iterable[tuple[str, bytes]],
    convert: Callable[[Image.Image], np.ndarray],
    *,
    size: tuple[int, int],
    what: str,
) -> tuple[list[str], np.ndarray]:
    """The names of the files, and their pictures as `convert` makes them, in one array."""
    console = Console(stderr=True)
    names, arrays = [], []
    files = list(contents)
    for name, content in track(files, what, console=console, disable=not console.is_terminal, transient=True):
        names.append(name)
        arrays.append(_decode(path, name, content, convert, size))
    if not arrays:
        raise ValueError(f"{path} holds no picture in the place where the published archive has them.")
    return names, np.stack(arrays)


def _decode(
    path: Path, name: str, content: bytes, convert: Callable[[Image.Image], np.ndarray], size: tuple[int, int]
) -> np.ndarray:
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as picture:
            if picture.size != size:
                raise ValueError(f"it is {picture.size[0]}×{picture.size[1]}, not {size[0]}×{size[1]}")
            return convert(picture)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"{path}: {name} is not a picture that can be used ({error}).") from None
