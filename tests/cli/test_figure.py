"""`ebmm figure` draws the paper's figures on Omniglot, and saves beside each the numbers that it shows."""

import json
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from drawings_for_tests import SIDE, Associative

import ebmm
from ebmm.baselines import SYSTEMS
from ebmm.cli import main
from ebmm.data import DATASETS
from ebmm.data.binary import strings
from ebmm.data.dataset import Dataset, Pixels, Source
from ebmm.energies import GatedRNN
from ebmm.evaluation.protocols import PROTOCOLS, Protocol
from ebmm.pretrained import layer_names


def pictures(name, *, channels, levels, ink):
    """A dataset of forty random images that needs no files."""
    pixels = (np.random.default_rng(0).random((40, SIDE, SIDE, channels)) < ink) * levels
    source = Source((), lambda: Pixels(pixels.astype(np.uint8), np.arange(40)))
    return Dataset(
        name=name,
        title=name,
        licence="",
        citation="",
        homepage="",
        pattern_shape=(SIDE, SIDE, channels),
        levels=levels,
        version=1,
        sources={"test": (source,)},
        bundled=Path(),
    )


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A memory of drawings of 8×8 pixels, and small datasets in place of the large ones."""
    monkeypatch.setitem(SYSTEMS, "Associative", Associative)
    monkeypatch.setitem(DATASETS, "omniglot", pictures("omniglot", channels=1, levels=1, ink=0.3))
    monkeypatch.setitem(DATASETS, "mnist", pictures("mnist", channels=1, levels=1, ink=0.4))
    monkeypatch.setitem(DATASETS, "cifar10", pictures("cifar10", channels=3, levels=255, ink=0.9))
    for on in ("omniglot", "mnist"):
        monkeypatch.setitem(PROTOCOLS, on, Protocol(on, 4, "block:3"))
    ebmm.Memory(Associative(), "small", trained={"on": "omniglot"}).save_pretrained(tmp_path / "small")
    monkeypatch.chdir(tmp_path)
    return "./small"


def drawn(name, *options):
    """The numbers of a figure whose picture is there."""
    main(["figure", name, "--out", "out.png", *options])
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads(Path("out.json").read_text())
    assert report["figure"] == name
    assert {"command", "seed", "commit", "device", "wall_seconds"} <= report.keys()
    return report


def test_reading_goes_from_damaged_to_stored_with_energies(model):
    report = drawn("reading", "--model", model, "--seed", "3")
    assert report["columns"] == ["damaged", "read 1", "read 2", "stored"]
    assert report["wrong"][0] > report["wrong"][2]
    assert report["wrong"][-1] == 0
    assert [len(column["shown"]) for column in report["column_energies"]] == [4] * 4
    assert report["column_energies"][-1]["mean"] == pytest.approx(-(SIDE**2), rel=1e-3)  # what a projection gives
    assert (report["data"], report["split"], report["model"]["name"], report["seed"]) == (
        "omniglot",
        "test",
        "small",
        3,
    )


def test_energies_are_counted_by_kind_and_compared_with_the_memories(model, capsys):
    report = drawn("energies", "--model", model, "--batches", "3")
    kinds = ["memories", "non-memories", "damaged memories", "CIFAR-10, binarised"]
    assert list(report["energies"]) == list(report["shares"]) == kinds
    assert report["energies"]["memories"]["mean"] == pytest.approx(-(SIDE**2), rel=1e-3)
    middles = np.convolve(report["bins"], [0.5, 0.5], "valid")
    width = report["bins"][1] - report["bins"][0]
    for kind in kinds:
        assert sum(report["shares"][kind]) == pytest.approx(1)
        assert middles @ report["shares"][kind] == pytest.approx(report["energies"][kind]["mean"], abs=width / 2)
    assert report["energies"]["non-memories"]["told_apart"] == 1
    assert report["batches"] == 3
    assert "100 %" in capsys.readouterr().out


def test_digits_have_their_error_beside_that_of_blanking(model, capsys):
    report = drawn("digits", "--model", model, "--batches", "2")
    assert (report["data"], report["batches"], len(report["iterates"])) == ("mnist", 2, 2)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"4 MNIST digits written with care to small: {report['error']['mean']:.1f} wrong pixels" in printed
    assert f"{report['yardsticks']['blanked']['mean']:.1f} with the damage blanked" in printed


def test_rates_are_those_of_the_model(tmp_path, monkeypatch):
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, hops=2, key=jax.random.key(0))
    model = ebmm.new_model(
        energy, strings(6).draw(4, key=jax.random.key(1)), domain=(-1.0, 1.0), write_steps=2, read_steps=3
    )
    raw = np.random.default_rng(0).normal(size=model.write_rates.raw.shape).astype(np.float32)
    model = eqx.tree_at(lambda m: m.write_rates.raw, model, raw)
    ebmm.Memory(model, "strings").save_pretrained(tmp_path / "strings")
    monkeypatch.chdir(tmp_path)
    report = drawn("rates", "--model", "./strings")
    assert list(report["write_rates"]) == ["energy", "gradient", "prior"]
    for term, layers in enumerate(report["write_rates"].values()):
        assert list(layers) == ["memory"]
        np.testing.assert_allclose(layers["memory"], np.log1p(np.exp(raw[:, 0, term])), rtol=1e-5)
    np.testing.assert_allclose(report["read_rates"]["rate"], model.read_rates.rates(), rtol=1e-6)
    np.testing.assert_allclose(report["read_rates"]["momentum"], model.read_rates.momenta(), rtol=1e-6)

    ebmm.Memory(replace(model, gradient_term=False), "without").save_pretrained(tmp_path / "without")
    without = drawn("rates", "--model", "./without")
    assert without["write_rates"] == {term: report["write_rates"][term] for term in ("energy", "prior")}


def test_a_layer_is_named_by_what_its_arrays_have_in_common(conv):
    assert layer_names(conv.energy, lambda energy: energy.readout) == ["readout"]
    assert layer_names(conv.energy, lambda energy: (energy.readout.weight, energy.block)) == ["readout.weight", "block"]


def test_json_is_all_that_is_printed(model, capsys):
    report = drawn("reading", "--model", model, "--json")
    assert json.loads(capsys.readouterr().out) == report


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["readng"], "no figure 'readng'. Did you mean reading. Expected reading, energies, digits, rates"),
        (["reading", "--out", "out.pdf"], "--out out.pdf: expected a file that ends in .png"),
        (["reading", "--out", "missing/out.png"], "--out missing/out.png: expected"),
        (["reading", "--batches", "3"], "--batches 3: energies and digits"),
        (["energies", "--batches", "0"], "batches: got 0"),
        (["reading", "--seed", "-1"], "seed: got -1"),
        (["reading", "--model", "omniglot-conv-8k"], "Did you mean omniglot-conv-9k"),
        (["rates", "--model", "./small"], "small is a Associative, which has no schedule of rates"),
        (["reading"], r"shape \(32, 32, 1\)"),  # the bundled model beside drawings of 8×8 pixels
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(arguments, message, model):
    with pytest.raises(SystemExit, match=f"ebmm: .*{message}"):
        main(["figure", *arguments])
    assert [path.name for path in Path().iterdir()] == ["small"]


def test_a_dataset_that_is_missing_is_told_and_nothing_takes_its_place(tmp_path, monkeypatch):
    def fetch(*_, **__):
        raise FileNotFoundError("omniglot test is not there")

    monkeypatch.setattr(Dataset, "images", fetch)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="ebmm: omniglot test is not there"):
        main(["figure", "reading"])
    assert not list(tmp_path.iterdir())
