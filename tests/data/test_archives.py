"""Archives give what is in them, or an error that names the file: no path out, no bomb, no code."""

import gzip
import io
import pickle
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from archives_for_tests import npz, write_tar, write_zip
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmm.data.archives import gunzipped, npz_arrays, tar_members, zip_members

MEMBERS = [("folder/b.txt", b"second"), ("folder/a.txt", b"first" * 50), ("other.bin", b"unwanted")]


def is_text(name):
    return name.endswith(".txt")


def read_zip(path, *, wanted=is_text, largest=1000, **bounds):
    return list(zip_members(path, wanted=wanted, largest=largest, **bounds))


def read_tar(path, *, wanted=is_text, largest=1000, **bounds):
    return list(tar_members(path, wanted=wanted, largest=largest, **bounds))


BOTH = pytest.mark.parametrize(("write", "read"), [(write_zip, read_zip), (write_tar, read_tar)], ids=["zip", "tar"])


def test_a_zip_gives_its_wanted_members_in_the_order_of_their_names(tmp_path):
    write_zip(tmp_path / "archive", [("folder/", b""), *MEMBERS])
    assert read_zip(tmp_path / "archive") == [MEMBERS[1], MEMBERS[0]]


def test_a_tar_gives_its_wanted_members(tmp_path):
    folder = tarfile.TarInfo("folder.txt")
    folder.type = tarfile.DIRTYPE
    write_tar(tmp_path / "archive", [("folder.txt", folder), *MEMBERS])
    assert read_tar(tmp_path / "archive") == MEMBERS[:2]


def test_a_gzip_file_and_a_plain_one_give_the_same(tmp_path):
    (tmp_path / "plain").write_bytes(b"content")
    (tmp_path / "compressed").write_bytes(gzip.compress(b"content"))
    assert gunzipped(tmp_path / "plain", largest=7) == gunzipped(tmp_path / "compressed", largest=7) == b"content"


def test_an_npz_gives_the_arrays_that_are_asked_for(tmp_path):
    (tmp_path / "arrays").write_bytes(npz(images=np.arange(6).reshape(2, 3), labels=np.array([4, 5]), other=np.ones(2)))
    labels, images = npz_arrays(tmp_path / "arrays", "labels", "images", largest=1000)
    np.testing.assert_array_equal(labels, [4, 5])
    np.testing.assert_array_equal(images, [[0, 1, 2], [3, 4, 5]])


@BOTH
@pytest.mark.parametrize(
    "name", ["../outside.txt", "folder/../../outside.txt", "/outside.txt", "..\\outside.txt", "C:\\x"]
)
def test_a_member_that_leads_outside_is_refused_even_where_it_is_not_wanted(write, read, name, tmp_path):
    write(tmp_path / "archive", [*MEMBERS, (name, b"evil")])
    for wanted in (is_text, "other.bin".__eq__):
        with pytest.raises(ValueError, match="archive holds a member that leads outside"):
            read(tmp_path / "archive", wanted=wanted)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar_are_refused(kind, tmp_path):
    link = tarfile.TarInfo("folder/link.txt")
    link.type, link.linkname = kind, "other.bin"
    write_tar(tmp_path / "archive", [*MEMBERS, ("folder/link.txt", link)])
    with pytest.raises(ValueError, match="archive holds a member that leads outside it .'folder/link.txt'"):
        read_tar(tmp_path / "archive")


def test_a_link_in_a_zip_is_refused(tmp_path):
    link = zipfile.ZipInfo("folder/link.txt")
    link.external_attr = 0o120777 << 16
    write_zip(tmp_path / "archive", [*MEMBERS, (link, b"/etc/passwd")])
    with pytest.raises(ValueError, match="archive holds a member that leads outside it .'folder/link.txt'"):
        read_zip(tmp_path / "archive")


@BOTH
def test_a_member_above_the_bound_is_refused_before_it_is_unpacked(write, read, tmp_path, monkeypatch):
    write(tmp_path / "archive", [("a.txt", bytes(1001))])
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    monkeypatch.setattr(tarfile.TarFile, "extractfile", None)
    with pytest.raises(ValueError, match="archive: a.txt would take 1,001 bytes; expected at most 1,000"):
        read(tmp_path / "archive")


@BOTH
def test_all_members_together_have_a_bound(write, read, tmp_path):
    write(tmp_path / "archive", [(f"{i}.txt", bytes(600)) for i in range(5)])
    assert len(read(tmp_path / "archive", total=3000)) == 5
    with pytest.raises(ValueError, match="archive would take more than 2,999 bytes unpacked"):
        read(tmp_path / "archive", total=2999)


@BOTH
def test_a_member_that_is_not_wanted_has_a_bound_too(write, read, tmp_path):
    write(tmp_path / "archive", [("a.txt", b"wanted"), ("bomb.bin", bytes(5000))])
    assert read(tmp_path / "archive", total=6000) == [("a.txt", b"wanted")]
    with pytest.raises(ValueError, match="archive: bomb.bin would take 5,000 bytes; expected at most 4,000"):
        read(tmp_path / "archive", total=4000)


def test_a_zip_that_lies_about_the_size_of_a_member_is_refused(tmp_path):
    write_zip(tmp_path / "archive", [("a.txt", bytes(100_000))])
    content = bytearray((tmp_path / "archive").read_bytes())
    struct.pack_into("<I", content, content.index(b"PK\x01\x02") + 24, 10)  # the size unpacked, in the directory
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(ValueError, match="archive is truncated or damaged"):
        read_zip(tmp_path / "archive")


def test_a_gzip_file_above_the_bound_is_refused(tmp_path):
    (tmp_path / "file.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(ValueError, match="file.gz would take more than 1,000 bytes unpacked"):
        gunzipped(tmp_path / "file.gz", largest=1000)


def test_an_array_above_the_bound_is_refused(tmp_path):
    (tmp_path / "file.npz").write_bytes(npz(images=np.zeros(10_000_000, np.uint8)))
    with pytest.raises(ValueError, match="file.npz: images would take 10,000,128 bytes; expected at most 1,000"):
        npz_arrays(tmp_path / "file.npz", "images", largest=1000)


def test_an_array_that_claims_more_than_it_has_is_refused(tmp_path):
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "|u1", "fortran_order": False, "shape": (10**15,)})
    write_zip(tmp_path / "file.npz", [("images.npy", array.getvalue() + b"few")])
    with pytest.raises(ValueError, match="file.npz holds something that is no plain array"):
        npz_arrays(tmp_path / "file.npz", "images", largest=1000)


def test_a_missing_array_is_named(tmp_path):
    (tmp_path / "file.npz").write_bytes(npz(images=np.zeros(3)))
    with pytest.raises(ValueError, match="file.npz lacks the array labels; expected images, labels"):
        npz_arrays(tmp_path / "file.npz", "images", "labels", largest=1000)


class Code:
    """Pickled, it makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_an_array_of_objects_is_refused_and_nothing_in_it_runs(tmp_path):
    (tmp_path / "file.npz").write_bytes(npz(images=np.array([Code(tmp_path / "ran")], object)))
    with pytest.raises(ValueError, match="file.npz holds something that is no plain array"):
        npz_arrays(tmp_path / "file.npz", "images", largest=1000)
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Code(tmp_path / "ran"))).close()
    assert (tmp_path / "ran").exists()  # it would have run


def test_an_encrypted_member_is_refused(tmp_path):
    write_zip(tmp_path / "archive", [("a.txt", b"secret")])
    content = bytearray((tmp_path / "archive").read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(ValueError, match="archive is truncated or damaged .*encrypted"):
        read_zip(tmp_path / "archive")


READERS = {
    "zip": read_zip,
    "tar": read_tar,
    "gz": lambda path: gunzipped(path, largest=10_000),
    "npz": lambda path: [array.tolist() for array in npz_arrays(path, "images", largest=10_000)],
}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """One archive of each kind, with content that does not compress."""
    folder = tmp_path_factory.mktemp("archives")
    noise = np.random.default_rng(0).bytes(900)
    write_zip(folder / "zip", [("a.txt", noise), ("b.txt", noise[::-1])])
    write_tar(folder / "tar", [("a.txt", noise), ("b.txt", noise[::-1])])
    (folder / "gz").write_bytes(gzip.compress(noise))
    (folder / "npz").write_bytes(npz(images=np.frombuffer(noise, np.uint8)))
    return folder


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9, 0.98])
def test_a_truncated_archive_is_refused_by_name(kind, share, archives, tmp_path):
    content = (archives / kind).read_bytes()
    (tmp_path / "cut").write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="(?s)cut is truncated or damaged .* Delete it and fetch it again"):
        READERS[kind](tmp_path / "cut")


@pytest.mark.parametrize("kind", ["zip", "tar", "npz"])
def test_an_empty_file_is_refused_by_name(kind, tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty is truncated or damaged"):
        READERS[kind](tmp_path / "empty")


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(["zip", "tar", "gz", "npz"]), share=st.floats(0, 1, exclude_max=True))
def test_what_is_cut_anywhere_gives_all_or_an_error(kind, share, archives, tmp_path_factory):
    content = (archives / kind).read_bytes()
    size = int(share * len(content))
    path = tmp_path_factory.getbasetemp() / f"cut-{kind}"
    path.write_bytes(content[:size])
    found, message = None, ""
    try:
        found = READERS[kind](path)
    except ValueError as error:
        message = str(error)
    if kind == "gz" and size < 2:  # too short to look compressed
        assert found == content[:size]
    else:
        assert found == READERS[kind](archives / kind) or message.startswith(f"{path} is truncated or damaged")


@pytest.mark.parametrize("kind", ["zip", "tar", "npz"])
def test_what_is_no_archive_is_refused_by_name(kind, tmp_path):
    (tmp_path / "page").write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(ValueError, match="page is truncated or damaged"):
        READERS[kind](tmp_path / "page")


def test_an_npz_with_any_one_byte_damaged_is_refused_or_the_same(tmp_path):
    stored = io.BytesIO()
    np.savez(stored, images=np.arange(900, dtype=np.uint8))  # not compressed, so that the header is hit too
    sound, path = stored.getvalue(), tmp_path / "file.npz"
    for place in range(0, len(sound), 3):
        content = bytearray(sound)
        content[place] ^= 1 + place % 255
        path.write_bytes(content)
        images, message = np.arange(900, dtype=np.uint8), ""
        try:
            (images,) = npz_arrays(path, "images", largest=10_000)
        except ValueError as error:
            message = str(error)
        assert message == "" or message.startswith(str(path))
        np.testing.assert_array_equal(images, np.arange(900, dtype=np.uint8))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_member_is_refused_however_it_is_compressed(compression, tmp_path, rng):
    write_zip(tmp_path / "archive", [("a.txt", rng.bytes(500))], compression=compression)
    content = bytearray((tmp_path / "archive").read_bytes())
    content[100:300] = bytes(200)
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(ValueError, match="archive is truncated or damaged"):
        list(zip_members(tmp_path / "archive", wanted=lambda _: True, largest=1000))
