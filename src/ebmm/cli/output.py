"""What every command does at its door and at its end: plain errors, checked places, whole files."""

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def told_plainly() -> Iterator[None]:
    """For the part of a command that meets what the user gave: an error is told in a sentence, not in a traceback."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise SystemExit(f"ebmm: {error}") from None


def check_place(option: str, path: Path | None, suffix: str) -> None:
    """Refuse a place that could not be written to, before any work is done; a picture also without matplotlib."""
    if path is None:
        return
    if path.suffix != suffix or not path.absolute().parent.is_dir() or path.is_dir():
        raise ValueError(f"{option} {path}: expected a file that ends in {suffix}, in a folder that exists.")
    try:
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise ValueError(f"{option} {path}: expected a folder that can be written to ({error.strerror}).") from None
    if suffix == ".png":
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise ValueError(f"{option} {path} needs matplotlib: pip install 'ebmm[demo]'.") from None


def save_figure(figure: "Figure", path: Path) -> None:
    png = io.BytesIO()
    figure.savefig(png, dpi=150)
    write_whole({path: png.getvalue()})
