"""`ebmm data` lists, gets and shows datasets, and says what is missing."""

import hashlib
import socket
import struct
import threading
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest

from ebmm.cli import main
from ebmm.data import DATASETS


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty data folder, and a terminal that is wide enough for every message."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("EBMM_DATA", str(folder))
    monkeypatch.setattr("ebmm.data.dataset.user_folder", lambda: tmp_path / "user")
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


def use(monkeypatch, name, change):
    """Changes every file of a dataset."""

    def changed(source):
        return replace(source, files=tuple(change(file) for file in source.files))

    sources = {split: tuple(map(changed, forms)) for split, forms in DATASETS[name].sources.items()}
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], sources=sources))


def test_list_shows_every_dataset_with_its_licence_and_what_to_cite(folder, capsys):
    (folder / "mnist_test.npz").write_bytes(bytes(1_234_567))
    main(["data", "list"])
    shown = capsys.readouterr().out
    assert str(folder) in shown
    for dataset in DATASETS.values():
        (row,) = (line for line in shown.splitlines() if dataset.name in line.split() and dataset.licence in line)
        assert {"omniglot-sample": "bundled", "mnist": "mnist_test.npz (1.2 MB)"}.get(dataset.name, "missing") in row
        assert dataset.citation in shown
    assert "missing; to be fetched by hand" in shown


def test_list_shows_prepared_arrays(folder, capsys):
    (folder / "prepared").mkdir()
    (folder / "prepared" / "cifar10-test-v1.safetensors").write_bytes(bytes(2_000_000))
    main(["data", "list"])
    assert "prepared (2.0 MB)" in capsys.readouterr().out


def test_get_tells_what_came_with_the_package(capsys):
    main(["data", "get", "omniglot-sample"])
    shown = capsys.readouterr().out
    assert "omniglot-sample test: 640 images of 32×32×1 in 32 classes; bundled" in shown
    assert "Licence: MIT" in shown
    assert "Lake" in shown


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(SystemExit, match=f"no dataset 'imagenet'; expected {', '.join(DATASETS)}"):
        main(["data", "get", "imagenet"])


def test_an_unknown_split_is_answered_with_the_known_ones():
    with pytest.raises(SystemExit, match="omniglot-sample: got split 'train'; expected test"):
        main(["data", "get", "omniglot-sample", "--split", "train"])


def test_a_missing_dataset_without_a_network_says_which_file_goes_where(folder, monkeypatch):
    with socket.socket() as taken:  # a port at which nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        use(monkeypatch, "omniglot", lambda file: replace(file, url=file.url and f"{address}/{file.name}"))
        with pytest.raises(SystemExit) as stop:
            main(["data", "get", "omniglot"])
    message = str(stop.value)
    assert f"{address}/images_background.zip could not be downloaded" in message
    assert f"Put images_background.zip, or omniglot.npz into {folder}, or set EBMM_DATA" in message
    assert not list(folder.iterdir())


def test_what_cannot_be_downloaded_says_which_file_goes_where(folder):
    with pytest.raises(SystemExit, match=f"Put Imagenet64_val_npz.zip, or val_data.npz into {folder}"):
        main(["data", "get", "imagenet64", "--split", "test"])


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_get_downloads_checks_and_prepares(folder, tmp_path, monkeypatch, capsys):
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    images, labels = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
    (shelf / images).write_bytes(struct.pack(">HBB3I", 0, 8, 3, 4, 28, 28) + bytes(4 * 28 * 28))
    (shelf / labels).write_bytes(struct.pack(">HBBI", 0, 8, 1, 4) + bytes([7, 7, 1, 2]))

    def own(file):
        if not (shelf / file.name).is_file():
            return file
        checksum = hashlib.md5((shelf / file.name).read_bytes()).hexdigest()
        return replace(file, url=f"http://127.0.0.1:{server.server_port}/{file.name}", checksum=f"md5:{checksum}")

    with HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(shelf))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        use(monkeypatch, "mnist", own)
        try:
            main(["data", "get", "mnist", "--split", "test"])
        finally:
            server.shutdown()
            thread.join()
    shown = capsys.readouterr().out
    assert f"mnist test: 4 images of 32×32×1 in 3 classes; {images} and {labels} (0.0 MB)" in shown
    assert "Licence: CC BY-SA 3.0" in shown
    assert (folder / images).read_bytes() == (shelf / images).read_bytes()
    assert (folder / "prepared" / "mnist-test-v1.safetensors").is_file()


def test_show_draws_a_picture(tmp_path, capsys):
    picture = tmp_path / "shown.png"
    main(["data", "show", "--damage", "block:16", "bits:0.5", "--count", "3", "--picture", str(picture)])
    assert str(picture) in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["imagenet"], "no dataset 'imagenet'"),
        (["--split", "train"], "got split 'train'"),
        (["--damage", "blur:3"], "damage 'blur:3': expected block:SIZE"),
        (["--damage", "block:64"], "block: got size 64; expected at most 32"),
        (["--count", "641"], "got 641 to draw from 640"),
        (["--picture", "shown.doc"], "--picture shown.doc: expected a file that ends in .png"),
    ],
)
def test_show_refuses_what_it_cannot_draw(wrong, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=message):
        main(["data", "show", *wrong])
    assert not list(tmp_path.glob("*.png"))
