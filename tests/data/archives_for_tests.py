"""Small archives in the published formats, a server for them, and what the readers should make of them.

Nothing here uses the readers: pictures are written with Pillow, and shrunk and enlarged again in NumPy.
"""

import hashlib
import io
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
from PIL import Image

NOWHERE = "http://127.0.0.1:9"  # for what must not be fetched


def own_folder(tmp_path, monkeypatch) -> Path:
    """An empty data folder; nothing is read from or written to the user's own."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("EBMM_DATA", str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("ebmm.data.dataset.user_folder", lambda: tmp_path / "user")
    return folder


def made(dataset, folder, *, address=NOWHERE):
    """The dataset with the checksums of the files that a test has put into a folder, and addresses on this machine."""

    def own(file):
        path = folder / file.name
        checksum = file.checksum
        if checksum is not None and path.is_file():
            kind = checksum.split(":")[0]
            checksum = f"{kind}:{hashlib.new(kind, path.read_bytes()).hexdigest()}"
        return replace(file, url=file.url and f"{address}/{file.name}", checksum=checksum)

    return with_sources(dataset, lambda source: replace(source, files=tuple(map(own, source.files)), count=None))


def of_any_size(dataset):
    """The dataset without the number of images that the published one has."""
    return with_sources(dataset, lambda source: replace(source, count=None))


def with_sources(dataset, change):
    """The dataset with every source changed."""
    changed = {split: tuple(map(change, sources)) for split, sources in dataset.sources.items()}
    return replace(dataset, sources=changed)


# Files


def write_zip(path, members, *, compression=zipfile.ZIP_DEFLATED):
    """A name that ends in a slash is a folder."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)


def write_tar(path, members):
    """A content may also be a TarInfo with a type of its own, such as a link."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def npz(**arrays) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def idx(array) -> bytes:
    """Bytes in the format of MNIST."""
    array = np.asarray(array, np.uint8)
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def png(ink) -> bytes:
    """A drawing as Omniglot has them: one bit a pixel, black on white."""
    content = io.BytesIO()
    Image.fromarray(~np.asarray(ink, bool)).save(content, "PNG")
    return content.getvalue()


def jpeg(pixels) -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(content, "JPEG")
    return content.getvalue()


def from_jpeg(content) -> np.ndarray:
    """The pixels of a JPEG file, grey ones in three equal channels."""
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    return pixels if pixels.ndim == 3 else np.stack([pixels] * 3, axis=-1)


def drawings(rng, count) -> np.ndarray:
    """Drawings of 105×105 with strokes that are five pixels wide."""
    return np.kron(rng.random((count, 21, 21)) < 0.4, np.ones((1, 5, 5))).astype(bool)


# What the readers should make of them


def box_weights(old, new) -> np.ndarray:
    """Each new pixel is the mean of the old ones whose centre lies in its box."""
    offsets = (np.arange(old) + 0.5) - (np.arange(new)[:, None] + 0.5) * old / new
    inside = (offsets > -old / new / 2) & (offsets <= old / new / 2)
    return inside / inside.sum(axis=1, keepdims=True)


def triangle_weights(old, new) -> np.ndarray:
    """Each new pixel lies between two old ones, and is nearer to one of them."""
    offsets = (np.arange(old) + 0.5) - (np.arange(new)[:, None] + 0.5) * old / new
    near = np.maximum(1 - abs(offsets), 0)
    return near / near.sum(axis=1, keepdims=True)


def resized(pixels, weights) -> np.ndarray:
    """First the rows and then the columns, each rounded to whole values."""
    rows = np.floor(pixels @ weights.T + 0.5)
    return np.floor(weights @ rows + 0.5)


def shrunk(ink) -> np.ndarray:
    """The bits [n, 32, 32, 1] of drawings [n, 105, 105]."""
    return (resized(np.asarray(ink) * 255.0, box_weights(105, 32)) >= 128)[..., None]


def enlarged(digits) -> np.ndarray:
    """The bits [n, 32, 32, 1] of digits [n, 28, 28]."""
    return (resized(np.asarray(digits, float), triangle_weights(28, 32)) >= 128)[..., None]


def as_bytes(images) -> np.ndarray:
    """Values in [0, 1] as the whole numbers from 0 to 255 that they came from."""
    return np.round(np.asarray(images, np.float64) * 255).astype(np.uint8)


# A server


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; claims that each file is longer than it is by what the server was told to add."""

    def do_GET(self):
        self.server.asked_for.append(self.path)
        content = Path(self.translate_path(self.path))
        if not content.is_file():
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(content.stat().st_size + self.server.longer))
        self.end_headers()
        self.wfile.write(content.read_bytes())

    def log_message(self, *_):
        pass


@contextmanager
def serving(folder, *, longer=0) -> Iterator[tuple[str, list[str]]]:
    """The address of a server for the files of a folder, and the list of what it is asked for."""
    with HTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        server.asked_for, server.longer = [], longer
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", server.asked_for
        finally:
            server.shutdown()
            thread.join()
