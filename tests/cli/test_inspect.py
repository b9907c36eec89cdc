"""`ebmm inspect` says what something is, and bundled models have names."""

import json
from dataclasses import asdict
from pathlib import Path

import jax
import numpy as np
import pytest

import ebmm
from ebmm.bundled import bundled_models
from ebmm.cli import main
from ebmm.energies import GatedRNN
from ebmm.experiments import EXPERIMENTS
from ebmm.files import save_tensors
from ebmm.training.checkpoint import FORMAT, Progress


@pytest.fixture(scope="module")
def memory():
    energy = GatedRNN(bits=6, memory_width=3, hidden=8, hops=2, key=jax.random.key(0))
    patterns = ebmm.strings(6).draw(4, key=jax.random.key(1))
    model = ebmm.new_model(energy, patterns, domain=(-1.0, 1.0), write_steps=1, read_steps=1)
    return ebmm.Memory(model, "small", trained={"patterns": 8, "error_by_patterns": {"8": 2.0}})


def inspected(what, capsys):
    main(["inspect", str(what)])
    return " ".join(capsys.readouterr().out.split())


def test_a_bundled_model_is_told_of_with_its_training(capsys):
    printed = inspected("omniglot-conv-9k", capsys)
    for words in ("bundled model", "ResNetConv", "9,232 floats", "for 64 patterns on omniglot", "7.1 wrong values"):
        assert words in printed


def test_every_bundled_model_has_a_card_and_loads_by_its_name():
    for name, folder in bundled_models().items():
        memory = ebmm.Memory.from_pretrained(name)
        assert (memory.name, memory.source) == (name, name)
        assert memory.trained is not None
        assert memory.trained["patterns"] > 0
        card = (folder / "README.md").read_text()
        assert f"{memory.trained['error']['mean']:.1f}" in card
        assert sum(path.stat().st_size for path in folder.iterdir()) < 11e6


def test_a_memory_of_a_bundled_model_finds_it_from_anywhere(tmp_path, monkeypatch):
    """Even beside a folder of the same name, for which the name alone is refused."""
    memory = ebmm.Memory.from_pretrained("omniglot-conv-9k")
    memory.save(tmp_path / "memory.safetensors")
    monkeypatch.chdir(tmp_path)
    memory.save_pretrained("omniglot-conv-9k")
    assert ebmm.Memory.load("memory.safetensors").source == "omniglot-conv-9k"
    assert ebmm.Memory.from_pretrained("./omniglot-conv-9k").source == str(tmp_path / "omniglot-conv-9k")
    assert ebmm.Memory.from_pretrained(Path("omniglot-conv-9k")).trained == memory.trained
    with pytest.raises(ValueError, match="both a bundled model and a folder"):
        ebmm.Memory.from_pretrained("omniglot-conv-9k")


def test_an_unknown_name_answers_with_the_nearest_and_all():
    with pytest.raises(FileNotFoundError, match="Did you mean omniglot-conv-9k.*Bundled: .*omniglot-conv-9k"):
        ebmm.Memory.from_pretrained("omniglot-conv")


def test_a_memory_says_how_full_it_is(memory, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    memory.save_pretrained("model")
    written = ebmm.Memory.from_pretrained("model").write(ebmm.strings(6).draw(2, key=jax.random.key(2)))
    written.save("memory.safetensors")
    printed = inspected("memory.safetensors", capsys)
    for words in ("memory", "21 floats", "2 patterns: 25% of the 8", "about 2 wrong values", "336"):
        assert words in printed
    Path("model").rename("elsewhere")
    printed = inspected("memory.safetensors", capsys)
    assert "no longer there" in printed
    assert "2 patterns" in printed


def test_a_model_folder_is_told_of(memory, tmp_path, capsys):
    memory.save_pretrained(tmp_path / "model")
    printed = inspected(tmp_path / "model", capsys)
    assert "GatedRNN" in printed
    assert "for 8 patterns" in printed


def test_a_run_and_its_checkpoint_are_told_of(memory, tmp_path, capsys):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    experiment = asdict(EXPERIMENTS["debug"])
    (run / "config.json").write_text(json.dumps({"experiment": experiment, "seed": 3, "device": "2 CPU cores"}))
    (run / "metrics.jsonl").write_text(json.dumps({"update": 25, "patterns": 4, "error": 1.5, "held_out": 2.25}) + "\n")
    printed = inspected(run, capsys)
    for words in ("run", "debug, seed 3", "update 25 of", "1.50, held out 2.25"):
        assert words in printed
    checkpoint = run / "checkpoints" / "update-000000025.safetensors"
    progress = json.dumps(asdict(Progress(update=25)))
    save_tensors(checkpoint, {"x": np.ones(7)}, format=FORMAT, run="abc", progress=progress)
    printed = inspected(checkpoint, capsys)
    for words in ("checkpoint", "7 floats", "debug", "update 25, stage 1"):
        assert words in printed


def test_what_is_none_of_these_is_refused_in_a_sentence(tmp_path, memory):
    (tmp_path / "text.safetensors").write_text("hello")
    (tmp_path / "folder").mkdir()
    memory.save_pretrained(tmp_path / "model")
    for what, message in {
        "text.safetensors": "truncated or no safetensors file",
        "folder": "is no model and no run",
        "nothing": "does not exist",
        "model/model.safetensors": "inspect its folder",
    }.items():
        with pytest.raises(SystemExit, match=f"ebmm: .*{message}"):
            main(["inspect", str(tmp_path / what)])


def test_a_damaged_description_of_training_is_refused(tmp_path, memory):
    memory.save_pretrained(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    for wrong in ("many", {"patterns": "many"}, {"error_by_patterns": {"x": 1}}, {"error": {"mean": "low"}}):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"trained": wrong}))
        with pytest.raises(ValueError, match="damaged: trained is"):
            ebmm.Memory.from_pretrained(tmp_path / "model")
