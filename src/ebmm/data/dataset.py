"""A dataset: where its files come from, how they become arrays, and where those are kept.

Everything lies in one data folder: the official files as they were published, and below `prepared/` the small
arrays made from them, so that the second time takes no time.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pooch

from ..files import load_tensors, save_tensors
from .download import download
from .images import Images

FORMAT = "ebmm-images"


def user_folder() -> Path:
    return Path(pooch.os_cache("ebmm"))


def data_folder() -> Path:
    """`EBMM_DATA`, or else a folder in the user's cache."""
    given = os.environ.get("EBMM_DATA")
    if not given:
        return user_folder()
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise ValueError(f"EBMM_DATA: got {given!r}; expected a folder, and there is no such user.") from None


class Pixels(NamedTuple):
    """What a reader makes of a dataset's files: pixels in 0…levels, and a label for each image."""

    pixels: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class File:
    """A file as it was published: its name in the data folder, its address and its checksum (`md5:…`)."""

    name: str
    url: str | None = None
    checksum: str | None = None


@dataclass(frozen=True)
class Source:
    """One form in which a split exists: files, and the function that reads them all."""

    files: tuple[File, ...]
    read: Callable[..., Pixels]
    count: int | None = None
    """How many images there have to be, where no checksum tells."""

    def paths(self, folder: Path) -> list[Path]:
        return [folder / file.name for file in self.files]

    def is_in(self, folder: Path) -> bool:
        return all(path.is_file() for path in self.paths(folder))

    @property
    def can_be_downloaded(self) -> bool:
        return all(file.url for file in self.files)

    def __str__(self) -> str:
        names = [file.name for file in self.files]
        return " and ".join(names) if len(names) < 3 else f"{names[0]} to {names[-1]} ({len(names)} files)"


@dataclass(frozen=True)
class Dataset:
    """A published set of images. `load` gives it as floats, `images` as bits or bytes to draw from."""

    name: str
    title: str
    licence: str
    citation: str
    homepage: str
    pattern_shape: tuple[int, int, int]
    levels: int
    version: int
    """Of the preparation: arrays prepared by another version are made anew."""
    sources: Mapping[str, tuple[Source, ...]]
    """For each split the forms it is read in, the preferred first."""
    bundled: Path | None = None
    """The folder of a dataset that comes with the package."""

    def load(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """All images of a split, float32 [n, height, width, channels] in [0, 1], and their labels."""
        return self.images(split).as_arrays()

    def images(self, split: str, *, folder: Path | None = None, fetch: bool = True) -> Images:
        """A split as small as it is. Its files are downloaded if they are not there and `fetch` allows it."""
        if self.bundled is not None:
            (source,) = self._sources(split)
            return self._read(source, self.bundled)
        folder = folder or data_folder()
        source = self.source(split, folder)
        prepared = self._prepared(split, folder, source)
        if prepared is not None:
            return prepared
        if source is None:
            if not fetch:
                raise FileNotFoundError(f"{self.name} {split} is not there. {self._what_to_do(split, folder)}")
            source = self.fetch(split, folder=folder)
        images = self._read(source, folder)
        self._keep(images, split, folder, source)
        return images

    def source(self, split: str, folder: Path | None = None) -> Source | None:
        """The form in which a split is in the folder, if it is."""
        folder = self.bundled or folder or data_folder()
        return next((source for source in self._sources(split) if source.is_in(folder)), None)

    def fetch(self, split: str, *, folder: Path | None = None) -> Source:
        """Download what is missing of a split, and the form that it then has."""
        folder = folder or data_folder()
        present = self.source(split, folder)
        if present is not None:
            return present
        source = next((source for source in self._sources(split) if source.can_be_downloaded), None)
        if source is None:
            raise FileNotFoundError(
                f"{self.name} {split} is not there and cannot be downloaded. {self._what_to_do(split, folder)}"
            )
        for file, path in zip(source.files, source.paths(folder), strict=True):
            if not path.exists():
                assert file.url is not None
                download(file.url, path, checksum=file.checksum, otherwise=self._what_to_do(split, folder))
        return source

    def _read(self, source: Source, folder: Path) -> Images:
        for file, path in zip(source.files, source.paths(folder), strict=True):
            _check(path, file.checksum)
        pixels, labels = source.read(*source.paths(folder))
        if pixels.shape[1:] != self.pattern_shape or len(pixels) != len(labels) or len(pixels) == 0:
            raise ValueError(
                f"{source} in {folder} gave images of shape {pixels.shape} and {len(labels)} labels; "
                f"expected (n, {', '.join(map(str, self.pattern_shape))}) and a label for each."
            )
        if source.count not in (None, len(pixels)):
            raise ValueError(f"{source} in {folder} holds {len(pixels):,} images; expected {source.count:,}.")
        return Images.packed(pixels, labels, levels=self.levels)

    def _keep(self, images: Images, split: str, folder: Path, source: Source) -> None:
        tensors = {"images": np.asarray(images.stored), "labels": np.asarray(images.labels)}
        for path in self._prepared_paths(split, folder):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                save_tensors(path, tensors, format=FORMAT, source=_fingerprint(source, folder))
                break
            except OSError:  # a folder that is not ours to write to, or a full disk: prepared again next time
                continue

    def _prepared(self, split: str, folder: Path, source: Source | None) -> Images | None:
        """The prepared arrays, if they are there, whole, and made from the files that are there."""
        for path in self._prepared_paths(split, folder):
            if not path.is_file():
                continue
            try:
                tensors, about = load_tensors(path, format=FORMAT)
            except ValueError:  # damaged: made anew
                continue
            if source is None or about.get("source") == _fingerprint(source, folder):
                return Images(
                    stored=tensors["images"],
                    labels=tensors["labels"],
                    pattern_shape=self.pattern_shape,
                    levels=self.levels,
                )
        return None

    def prepared_path(self, split: str, folder: Path) -> Path | None:
        """Where the prepared arrays of a split lie, if they do."""
        return next((path for path in self._prepared_paths(split, folder) if path.is_file()), None)

    def _prepared_paths(self, split: str, folder: Path) -> list[Path]:
        name = f"{self.name}-{split}-v{self.version}.safetensors"
        return list(dict.fromkeys([folder / "prepared" / name, user_folder() / "prepared" / name]))

    def _sources(self, split: str) -> tuple[Source, ...]:
        if split not in self.sources:
            raise ValueError(f"{self.name}: got split {split!r}; expected {' or '.join(self.sources)}.")
        return self.sources[split]

    def _what_to_do(self, split: str, folder: Path) -> str:
        forms = ", or ".join(map(str, self._sources(split)))
        return (
            f"Put {forms} into {folder}, or set EBMM_DATA to the folder that has it. It can be had from {self.homepage}"
        )


def _fingerprint(source: Source, folder: Path) -> str:
    """Changes when one of the files does, without reading them."""
    stats = [(file.name, path.stat()) for file, path in zip(source.files, source.paths(folder), strict=True)]
    return " ".join(f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats)


def _check(path: Path, checksum: str | None) -> None:
    if checksum is None:
        return
    kind, expected = checksum.split(":")
    found = pooch.file_hash(str(path), alg=kind)
    if found != expected:
        raise ValueError(
            f"{path} has the {kind} {found}; the published file has {expected}. It is truncated or another file: "
            "delete it and fetch it again."
        )
