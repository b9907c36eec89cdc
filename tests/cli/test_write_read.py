"""People's own images go into a memory and come back, or are refused in a sentence and nothing is written."""

import os
import zlib

import numpy as np
import pytest
from drawings_for_tests import SIDE, Associative
from PIL import Image

import ebmm
from ebmm.baselines import SYSTEMS, Hopfield
from ebmm.cli import main
from ebmm.cli.images import file_names, held, read_back
from ebmm.data.own_images import as_bits, find_images, load_images, threshold
from ebmm.evaluation.recognition import looks_stored


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a small model of drawings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SYSTEMS, "Associative", Associative)
        folder = tmp_path_factory.mktemp("models") / "drawings"
        ebmm.Memory(Associative(), "drawings", trained={"patterns": 4}).save_pretrained(folder)
        yield str(folder)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with three drawings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drawings").mkdir()
    for index in range(3):
        drawing(seed=index).resize((80, 80), Image.Resampling.NEAREST).save(tmp_path / "drawings" / f"{index}.png")
    return tmp_path


def ink_of(seed=0):
    return np.random.default_rng(seed).random((SIDE, SIDE)) < 0.3


def drawing(seed=0):
    """Dark ink on white paper."""
    return Image.fromarray(np.where(ink_of(seed), 20, 250).astype(np.uint8))


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_of_images_goes_in_and_comes_back(place, model, capsys):
    (place / "drawings" / "notes.txt").write_text("not an image")
    main(["write", "drawings", "-o", "memory.safetensors", "--model", model])
    printed = capsys.readouterr().out
    for words in ("passed over 1 other file", "3 images, fitted into 8×8 pixels, made black and white", "75% of the 4"):
        assert words in printed
    memory = ebmm.Memory.load("memory.safetensors")
    assert memory.patterns_stored == 3
    patterns = np.stack([ink_of(seed) for seed in range(3)])[..., None].astype(float)
    expected = ebmm.Memory.from_pretrained(model).write(patterns)
    np.testing.assert_allclose(memory.state, expected.state, atol=1e-6)
    assert memory.stored_energies == pytest.approx(np.asarray(expected.energy(patterns)), rel=1e-4)


def test_what_is_stored_is_read_back_and_a_warning_names_what_is_not_held(place, model, capsys):
    main(["write", "drawings", "-o", "memory.safetensors", "--model", model])
    assert "Read back undamaged, 0.0 of 64 pixels of an image are wrong.\n" in capsys.readouterr().out
    memory = ebmm.Memory.load("memory.safetensors")
    patterns = np.stack([ink_of(seed) for seed in range(5)])[..., None].astype(float)  # the last two are not stored
    back = read_back(memory, patterns)
    recalled = np.asarray(memory.read(patterns).patterns)
    assert back.wrong == tuple(((recalled > 0.5) != (patterns > 0.5)).sum(axis=(1, 2, 3)))
    assert back.wrong[:3] == (0, 0, 0)
    assert min(back.wrong[3:]) > 1
    assert back.energies == pytest.approx(np.asarray(memory.energy(patterns)), rel=1e-4)
    assert read_back(memory, 0.9 * patterns).wrong is None  # these are no bits
    told = held((0, 9, 2, 1), 100, [place / f"{index}.png" for index in range(4)])
    assert "3.0 of 100 pixels" in told
    assert f"Warning: 1 of 4 is not held well, {place / '1.png'} least of all" in told


def test_damaged_images_are_recovered_and_look_stored(place, model, capsys):
    main(["write", "drawings", "-o", "memory.safetensors", "--model", model])
    (place / "damaged").mkdir()
    for index in range(3):
        ink = ink_of(index)
        ink[:3, :3] = ~ink[:3, :3]
        Image.fromarray(np.where(ink, 0, 255).astype(np.uint8)).save(place / "damaged" / f"{index}.png")
    capsys.readouterr()
    main(["read", "memory.safetensors", "damaged/*.png", "-o", "recovered"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "damaged/" in line]
    assert files_in(place / "recovered") == ["0.png", "1.png", "2.png", "contact-sheet.png"]
    for index in range(3):
        with Image.open(f"recovered/{index}.png") as image:
            np.testing.assert_array_equal(np.asarray(image) < 128, ink_of(index))
        assert "yes" in lines[index]


def test_outputs_are_kept_unless_forced_and_inputs_always(place, model):
    write = ["write", "drawings", "-o", "memory.safetensors", "--model", model]
    main(write)
    before = (place / "memory.safetensors").read_bytes()
    with pytest.raises(SystemExit, match="memory.safetensors would be overwritten.*--force"):
        main([*write[:1], "drawings/0.png", *write[2:]])
    assert (place / "memory.safetensors").read_bytes() == before
    main([*write[:1], "drawings/0.png", *write[2:], "--force"])
    assert ebmm.Memory.load("memory.safetensors").patterns_stored == 1
    (place / "out").mkdir()
    (place / "out" / "0.png").write_bytes(b"mine")
    with pytest.raises(SystemExit, match="would be overwritten"):
        main(["read", "memory.safetensors", "drawings", "-o", "out"])
    assert files_in(place / "out") == ["0.png"]
    with pytest.raises(SystemExit, match="is one of the images to read"):
        main(["read", "memory.safetensors", "drawings", "-o", "drawings", "--force"])
    assert files_in(place / "drawings") == ["0.png", "1.png", "2.png"]


def test_steps_that_a_model_does_not_have_are_refused_before_anything_is_written(place, model):
    main(["write", "drawings", "-o", "memory.safetensors", "--model", model])
    with pytest.raises(SystemExit, match="ebmm: read steps: .* is not read down an energy"):
        main(["read", "memory.safetensors", "drawings", "-o", "out", "--steps", "9"])
    assert not (place / "out").exists()


def enormous(path):
    """A PNG that says it has 20,000 × 20,000 pixels."""

    def chunk(kind, body):
        return len(body).to_bytes(4) + kind + body + zlib.crc32(kind + body).to_bytes(4)

    header = (20_000).to_bytes(4) * 2 + bytes([8, 0, 0, 0, 0])
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")))


def truncated(path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:1000])


BAD = {
    "no image": (lambda path: path.write_text("hello"), "bad.png cannot be used: it is no image"),
    "empty": (lambda path: path.write_bytes(b""), "bad.png cannot be used"),
    "truncated": (truncated, "bad.png cannot be used: .*truncated"),
    "enormous": (enormous, "bad.png cannot be used: it is enormous"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_image_is_named_and_nothing_is_written(kind, place, model):
    make, message = BAD[kind]
    make(place / "drawings" / "bad.png")
    before = files_in(place)
    with pytest.raises(SystemExit, match=f"ebmm: .*{message}"):
        main(["write", "drawings", "-o", "memory.safetensors", "--model", model])
    assert files_in(place) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "m.safetensors"], "got no image"),
        (["nothing.png", "-o", "m.safetensors"], "nothing.png does not exist"),
        (["nothing*.png", "-o", "m.safetensors"], "no image there"),
        (["drawings", "-o", "m.txt"], "--out m.txt: expected a file that ends in .safetensors"),
        (["drawings", "-o", "missing/m.safetensors"], "in a folder that exists"),
        (["drawings", "-o", "m.safetensors", "--rehearse", "0"], "got 0 steps"),
        (["drawings", "-o", "m.safetensors", "--rehearse", "5", "--damage", "ink"], "ink"),
        (["drawings", "-o", "m.safetensors", "--damage", "block:4"], "--damage block:4: .* add --rehearse"),
        (["drawings", "-o", "m.safetensors", "--rehearse", "5"], "Associative is not read down an energy"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_sentence(arguments, message, place, model):
    before = files_in(place)
    with pytest.raises(SystemExit, match=f"ebmm: .*{message}"):
        main(["write", *arguments, "--model", model])
    assert files_in(place) == before


def test_what_is_to_be_practised_reaches_the_memory(place, model, monkeypatch):
    plainly, asked = ebmm.Memory.write, []

    def write(memory, patterns, *, careful, rehearsal, watch):
        asked.append((rehearsal.damage.name, rehearsal.steps, rehearsal.reveal))
        return plainly(memory, patterns, careful=careful)

    monkeypatch.setattr(ebmm.Memory, "write", write)
    arguments = ["write", "drawings", "--model", model, "--rehearse", "7", "-o"]
    main([*arguments, "a.safetensors"])
    main([*arguments, "b.safetensors", "--damage", "salt-and-pepper:0.2"])
    assert asked == [("block:16", 7, False), ("salt-and-pepper:0.2", 7, False)]


def test_a_memory_of_another_model_is_refused(place, model):
    main(["write", "drawings", "-o", "memory.safetensors", "--model", model])
    ebmm.Memory(Associative(strength=2.0), "another").save_pretrained("another")
    with pytest.raises(SystemExit, match="was written with model 'drawings'.*got 'another'"):
        main(["read", "memory.safetensors", "drawings", "-o", "out", "--model", "another"])
    with pytest.raises(SystemExit, match="truncated or no safetensors file"):
        main(["read", "drawings/0.png", "drawings", "-o", "out"])
    assert not (place / "out").exists()


def test_a_model_of_strings_takes_no_images(place):
    ebmm.Memory(Hopfield((6,)), "strings").save_pretrained("strings")
    with pytest.raises(SystemExit, match="expected one of images"):
        main(["write", "drawings", "-o", "memory.safetensors", "--model", "strings"])


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_missing_permissions_are_told(place, model):
    (place / "locked").mkdir(mode=0o500)
    with pytest.raises(SystemExit, match="can be written to"):
        main(["write", "drawings", "-o", "locked/memory.safetensors", "--model", model])
    (place / "drawings" / "0.png").chmod(0)
    with pytest.raises(SystemExit, match="0.png may not be read"):
        main(["write", "drawings", "-o", "memory.safetensors", "--model", model])


def test_images_of_every_kind_become_the_same_bits(tmp_path):
    """Enlarged, grey, coloured, transparent, turned by their metadata, light on dark: the ink is the same."""
    ink = ink_of()
    large = np.kron(ink, np.ones((10, 10), bool))
    grey = np.where(large, 90, 160).astype(np.uint8)
    turned = Image.fromarray(np.rot90(grey))
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    alpha = Image.merge("LA", [Image.new("L", (80, 80)), Image.fromarray(np.where(large, 255, 0).astype(np.uint8))])
    kinds = {
        "grey.png": Image.fromarray(grey),
        "colour.bmp": Image.fromarray(np.stack([grey, grey // 2, 255 - grey // 4], axis=-1)),
        "clear.png": alpha,
        "deep.tiff": Image.fromarray(grey.astype(np.uint16) * 100),
        "two.gif": Image.fromarray(np.where(large, 0, 255).astype(np.uint8)).convert("1"),
    }
    for name, image in kinds.items():
        image.save(tmp_path / name)
    turned.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    paths, _ = find_images([str(tmp_path)])
    loaded = load_images(paths, (SIDE, SIDE, 1), (0.0, 1.0))
    assert len(loaded.patterns) == 6
    for path, pattern in zip(loaded.paths, loaded.patterns, strict=True):
        np.testing.assert_array_equal(pattern[..., 0], ink, err_msg=path.name)
    light = as_bits(Image.fromarray(255 - grey), (SIDE, SIDE, 1), ink="light")
    np.testing.assert_array_equal(light[..., 0], ink)
    signs = load_images(paths[:1], (SIDE, SIDE, 1), (-1.0, 1.0)).patterns
    np.testing.assert_array_equal(signs[0, ..., 0], np.where(ink, 1, -1))


def test_a_wide_image_is_not_distorted_and_a_blank_one_is_told(tmp_path):
    Image.fromarray(np.zeros((10, 40), np.uint8)).save(tmp_path / "wide.png")
    Image.new("RGB", (9, 9), "white").save(tmp_path / "white.png")
    wide, blank = (load_images([tmp_path / name], (SIDE, SIDE, 1), (0.0, 1.0)) for name in ("wide.png", "white.png"))
    rows = wide.patterns[0, ..., 0].sum(axis=1)
    assert rows.tolist() == [0, 0, 0, 8, 8, 0, 0, 0]
    assert "blank" in blank.notes[1]
    colours = load_images([tmp_path / "wide.png"], (4, 4, 3), (0.0, 1.0)).patterns
    assert colours.shape == (1, 4, 4, 3)


def test_the_threshold_is_the_one_of_least_variance_within(rng):
    grey = np.concatenate([rng.normal(60, 12, 300), rng.normal(170, 20, 700)]).clip(0, 255).astype(np.uint8)

    def within(split):
        return sum(part.size * part.var() for part in (grey[grey < split], grey[grey >= split]) if part.size)

    assert within(threshold(grey)) == pytest.approx(min(within(split) for split in range(1, 256)))
    assert threshold(np.full(9, 200, np.uint8)) == 0


def test_energies_are_judged_beside_those_of_the_stored():
    stored = [-100.0, -80.0]
    verdicts = [looks_stored(energy, stored) for energy in (-120.0, -80.0, -72.0, -70.0, float("nan"))]
    assert verdicts == ["yes", "yes", "perhaps", "no", "no"]


def test_names_of_recovered_images_differ(tmp_path):
    paths = [tmp_path / "a" / "x.png", tmp_path / "b" / "X.jpg", tmp_path / "contact-sheet.png"]
    assert file_names(paths) == ["x.png", "X-2.png", "contact-sheet-2.png"]
