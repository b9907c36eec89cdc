"""What every command does at its door, on its way and at its end: plain errors, checked places, bars, whole files."""

import importlib.util
import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from ..evaluation.errors import Watch
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
    _check_writable(option, path, path.absolute().parent)
    if suffix == ".png" and not has_matplotlib():
        raise ValueError(f"{option} {path} needs matplotlib: pip install 'ebmm[demo]'.")


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that could neither be written to nor made, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{option} {folder}: expected a folder, and this is a file.")
    place = folder if folder.exists() else folder.absolute().parent
    if not place.is_dir():
        raise ValueError(f"{option} {folder}: expected a folder in one that exists.")
    _check_writable(option, folder, place)


def check_new(paths: Iterable[Path], *, force: bool) -> None:
    """Refuse to overwrite."""
    there = [path for path in paths if path.exists()]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise ValueError(f"{there[0]}{more} would be overwritten; choose another place, or add --force.")


def _check_writable(option: str, given: Path, folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"{option} {given}: expected a folder that can be written to ({error.strerror}).") from None


def has_matplotlib() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def bar(console: Console, what: str) -> Watch:
    """A progress bar for whatever goes through batches; none where nobody looks."""
    return lambda steps: track(steps, what, console=console, transient=True, disable=not console.is_terminal)


def save_figure(figure: "Figure", path: Path) -> None:
    write_whole({path: as_png(figure)})


def as_png(figure: "Figure") -> bytes:
    png = io.BytesIO()
    figure.savefig(png, dpi=150)
    return png.getvalue()
