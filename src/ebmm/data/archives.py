"""Archives read in memory, never unpacked to the disk, with a bound on everything that they claim."""

import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import numpy as np

MEBIBYTE = 2**20
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,  # a broken gzip file among others
    RuntimeError,  # an encrypted member, or a compression that this Python does not know
)
_AGAIN = "Delete it and fetch it again."


def zip_members(
    path: Path, *, wanted: Callable[[str], bool], largest: int, total: int = 2048 * MEBIBYTE
) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files of a zip archive, in the order of their names."""
    with _errors_told(path), zipfile.ZipFile(path) as archive:
        infos = sorted((info for info in archive.infolist() if not info.is_dir()), key=lambda info: info.filename)
        for info in infos:
            link = stat.S_ISLNK(info.external_attr >> 16)
            _check_member(path, info.filename, info.file_size, largest if wanted(info.filename) else total, link=link)
        _check_total(path, sum(info.file_size for info in infos), total)
        for info in infos:
            if wanted(info.filename):
                yield info.filename, archive.read(info)


def tar_members(
    path: Path, *, wanted: Callable[[str], bool], largest: int, total: int = 2048 * MEBIBYTE
) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files of a compressed tar archive, in its own order."""
    size = 0
    with _errors_told(path), tarfile.open(path, "r:*") as archive:
        for info in archive:
            link = not (info.isfile() or info.isdir())
            _check_member(path, info.name, info.size, largest if wanted(info.name) else total, link=link)
            size += info.size
            _check_total(path, size, total)
            if info.isfile() and wanted(info.name):
                file = archive.extractfile(info)
                assert file is not None
                yield info.name, file.read()


def gunzipped(path: Path, *, largest: int) -> bytes:
    """The content of a gzip file, or of one that is not compressed."""
    with _errors_told(path), path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        content = (gzip.GzipFile(fileobj=file) if compressed else file).read(largest + 1)
    _check_total(path, len(content), largest)
    return content


def npz_arrays(path: Path, *names: str, largest: int, content: io.BytesIO | None = None) -> tuple[np.ndarray, ...]:
    """Some arrays of an npz file, or of one inside an archive; objects, which could run code, are refused."""
    with _errors_told(path), zipfile.ZipFile(path if content is None else content) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
        missing = [name for name in names if f"{name}.npy" not in sizes]
        if missing:
            raise ValueError(f"{path} lacks the array {missing[0]}; expected {', '.join(names)}. {_AGAIN}")
        for name in names:
            _check_member(path, name, sizes[f"{name}.npy"], largest, link=False)
        return tuple(_array(path, archive, f"{name}.npy") for name in names)


def _array(path: Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file:  # left open, it would keep the archive open
        try:
            return np.lib.format.read_array(file)
        except _BROKEN:
            raise
        except Exception as error:  # a damaged header can fail in any way
            raise ValueError(f"{path} holds something that is no plain array ({error}). {_AGAIN}") from None


@contextmanager
def _errors_told(path: Path) -> Iterator[None]:
    """Turns what the archive modules raise into one error that names the file and says what to do."""
    try:
        yield
    except (PermissionError, IsADirectoryError) as error:
        raise OSError(f"{path} cannot be read ({error.strerror}).") from None
    except _BROKEN as error:
        first_line = str(error).partition("\n")[0]
        raise ValueError(f"{path} is truncated or damaged ({first_line}). {_AGAIN}") from None


def _check_member(path: Path, name: str, size: int, largest: int, *, link: bool) -> None:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in name or link:
        raise ValueError(f"{path} holds a member that leads outside it ({name!r}), so it is not used. {_AGAIN}")
    if size > largest:
        raise ValueError(f"{path}: {name} would take {size:,} bytes; expected at most {largest:,}. {_AGAIN}")


def _check_total(path: Path, size: int, total: int) -> None:
    if size > total:
        raise ValueError(f"{path} would take more than {total:,} bytes unpacked, so it is not used. {_AGAIN}")
