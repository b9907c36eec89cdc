"""A download ends in a whole file with the right checksum, or in none and an error that says what to do."""

import socket
from dataclasses import replace

import numpy as np
import pytest
from archives_for_tests import enlarged, idx, made, of_any_size, own_folder, serving, with_sources

from ebmm.data import DATASETS
from ebmm.data.download import download

MNIST = of_any_size(DATASETS["mnist"])
IMAGES, LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return own_folder(tmp_path, monkeypatch)


@pytest.fixture
def digits(rng):
    return rng.integers(0, 256, (5, 28, 28), np.uint8)


@pytest.fixture
def shelf(tmp_path, digits):
    """The folder that is served: the two files of MNIST's test set."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / IMAGES).write_bytes(idx(digits))
    (shelf / LABELS).write_bytes(idx([1, 2, 3, 4, 5]))
    return shelf


def with_wrong_checksums(dataset):
    def wrong(file):
        return replace(file, checksum=file.checksum and f"md5:{'0' * 32}")

    return with_sources(dataset, lambda source: replace(source, files=tuple(map(wrong, source.files))))


def refusal(kind, attempt):
    """What is said when an attempt fails. No traceback is kept, which would keep the connection open."""
    try:
        attempt()
    except kind as error:
        return str(error)
    raise AssertionError("it did not fail")


def contents(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_what_is_missing_is_downloaded_once(folder, shelf, digits):
    with serving(shelf) as (address, asked_for):
        dataset = made(MNIST, shelf, address=address)
        for _ in range(2):
            images, labels = dataset.load("test")
            np.testing.assert_array_equal(images, enlarged(digits))
            np.testing.assert_array_equal(labels, [1, 2, 3, 4, 5])
    assert asked_for == [f"/{IMAGES}", f"/{LABELS}"]
    for name in (IMAGES, LABELS):
        assert (folder / name).read_bytes() == (shelf / name).read_bytes()
    assert contents(folder) == ["mnist-test-v1.safetensors", "prepared", IMAGES, LABELS]


def test_only_what_is_missing_is_downloaded(folder, shelf, digits):
    (folder / IMAGES).write_bytes((shelf / IMAGES).read_bytes())
    with serving(shelf) as (address, asked_for):
        images, _ = made(MNIST, shelf, address=address).load("test")
    np.testing.assert_array_equal(images, enlarged(digits))
    assert asked_for == [f"/{LABELS}"]


def test_a_folder_that_is_not_there_is_made(folder, shelf):
    with serving(shelf) as (address, _):
        dataset = made(MNIST, shelf, address=address)
        assert len(dataset.images("test", folder=folder / "new" / "folder")) == 5


def test_fetching_what_is_there_downloads_nothing(folder, shelf):
    with serving(shelf) as (address, asked_for):
        dataset = made(MNIST, shelf, address=address)
        first = dataset.fetch("test")
        assert dataset.fetch("test") == first == dataset.source("test")
    assert len(asked_for) == 2


def test_another_file_than_the_published_one_is_not_kept(folder, shelf):
    with serving(shelf) as (address, _):
        dataset = with_wrong_checksums(made(MNIST, shelf, address=address))
        message = refusal(ValueError, lambda: dataset.load("test"))
    assert message.startswith(f"{address}/{IMAGES} is not the file that was published")
    says_what_to_do(message, folder)
    assert contents(folder) == []


def test_a_file_that_the_server_does_not_have(folder, shelf):
    with serving(shelf) as (address, _):
        dataset = made(MNIST, shelf, address=address)
        (shelf / LABELS).unlink()
        message = refusal(ConnectionError, lambda: dataset.load("test"))
    assert message.startswith(f"{address}/{LABELS} could not be downloaded (404")
    says_what_to_do(message, folder)
    assert contents(folder) == [IMAGES]  # whole, and checked: the next attempt begins here


def test_a_server_that_closes_early(folder, shelf):
    with serving(shelf, longer=1000) as (address, _):
        dataset = made(MNIST, shelf, address=address)
        message = refusal(ConnectionError, lambda: dataset.load("test"))
    assert message.startswith(f"{address}/{IMAGES} could not be downloaded")
    says_what_to_do(message, folder)
    assert contents(folder) == []


@pytest.fixture
def closed_port():
    """A port that is taken, so that nobody else listens at it, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_no_server_at_all(folder, shelf, closed_port):
    dataset = made(MNIST, shelf, address=f"http://127.0.0.1:{closed_port}")
    message = refusal(ConnectionError, lambda: dataset.load("test"))
    assert message.startswith(f"http://127.0.0.1:{closed_port}/{IMAGES} could not be downloaded")
    says_what_to_do(message, folder)
    assert contents(folder) == []


def test_a_folder_that_cannot_be_made(folder, shelf):
    (folder / "file").touch()
    with serving(shelf) as (address, asked_for):
        dataset = made(MNIST, shelf, address=address)
        message = refusal(OSError, lambda: dataset.images("test", folder=folder / "file"))
    assert message.startswith(f"{folder / 'file' / IMAGES} could not be written")
    says_what_to_do(message, folder / "file")
    assert asked_for == []


def test_an_error_leaves_a_file_of_the_same_name_alone(tmp_path, shelf):
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    checksum = f"md5:{'0' * 32}"
    with serving(shelf) as (address, _):
        for kind, name in ((ConnectionError, "missing"), (ValueError, IMAGES)):
            url = f"{address}/{name}"
            message = refusal(kind, lambda url=url: download(url, mine, checksum=checksum, otherwise="Do it yourself."))
            assert message.endswith("Do it yourself.")
    assert mine.read_bytes() == b"mine"


def test_nothing_is_downloaded_where_that_is_not_allowed(folder, shelf):
    with serving(shelf) as (address, asked_for):
        dataset = made(MNIST, shelf, address=address)
        message = refusal(FileNotFoundError, lambda: dataset.images("test", fetch=False))
    assert message.startswith("mnist test is not there")
    says_what_to_do(message, folder)
    assert asked_for == []


def says_what_to_do(message, folder):
    assert f"Put {IMAGES} and {LABELS}, or " in message
    assert f"into {folder}, or set EBMM_DATA" in message
    assert MNIST.homepage in message


def test_a_file_put_there_by_hand_is_checked(folder, shelf):
    dataset = made(MNIST, shelf)
    for name in (IMAGES, LABELS):
        (folder / name).write_bytes((shelf / name).read_bytes())
    (folder / LABELS).write_bytes(idx([1, 2, 3, 4, 6]))
    with pytest.raises(ValueError, match=f"{LABELS} has the md5 .*; the published file has .*delete it and fetch"):
        dataset.load("test")
    assert contents(folder) == [IMAGES, LABELS]
    (folder / LABELS).write_bytes((shelf / LABELS).read_bytes())
    assert len(dataset.images("test")) == 5


def test_a_file_put_there_by_hand_is_never_overwritten(folder, shelf):
    (folder / IMAGES).write_bytes(b"mine")
    with serving(shelf) as (address, _), pytest.raises(ValueError, match=f"{IMAGES} has the md5"):
        made(MNIST, shelf, address=address).load("test")
    assert (folder / IMAGES).read_bytes() == b"mine"


@pytest.mark.parametrize("name", DATASETS)
def test_a_split_that_does_not_exist_is_refused(name, folder):
    splits = " or ".join(DATASETS[name].sources)
    for use in (DATASETS[name].load, DATASETS[name].source):
        with pytest.raises(ValueError, match=f"{name}: got split 'validation'; expected {splits}"):
            use("validation")


@pytest.mark.parametrize("name", ["omniglot", "cifar10", "mnist", "tiny-imagenet"])
def test_everything_that_is_downloaded_has_a_checksum(name):
    files = [file for forms in DATASETS[name].sources.values() for source in forms for file in source.files if file.url]
    assert files
    assert all(file.checksum for file in files)


def test_without_a_choice_the_data_folder_is_in_the_users_cache(monkeypatch, tmp_path):
    from ebmm.data.dataset import data_folder

    monkeypatch.delenv("EBMM_DATA", raising=False)
    monkeypatch.setattr("ebmm.data.dataset.user_folder", lambda: tmp_path)
    assert data_folder() == tmp_path
    monkeypatch.setenv("EBMM_DATA", "~/pictures")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / "pictures"
