"""The script that makes a trained model the one that is shipped."""

import importlib.util
import json
from pathlib import Path

import pytest
from conftest import small_rnn

from ebmm import Memory
from ebmm.pretrained import load_model, model_hash, trained_of

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("bundle", ROOT / "scripts/bundle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(folder, patterns, error):
    """What `ebmm evaluate --out` would save of the model in a folder, as far as it is read."""
    path = folder.parent / f"evaluation-{patterns}.json"
    about = {"on": "strings", "damage": "bits:0.5", "patterns": patterns, "metric": "hamming", "batches": 7}
    spread = {"mean": error, "low": error - 1, "high": error + 1}
    path.write_text(json.dumps({**about, "error": spread, "model": {"hash": model_hash(load_model(folder)[0])}}))
    return path


def test_a_model_is_rounded_and_shipped_with_its_errors(script, tmp_path):
    cost = {"updates": 10, "minutes": 1.234, "compile_minutes": 0.5}
    Memory(small_rnn(), "small", trained={"on": "strings", "patterns": 4, **cost}).save_pretrained(tmp_path / "model")
    script.round_weights(tmp_path / "model", tmp_path / "rounded")
    evaluations = tuple(report(tmp_path / "rounded", patterns, error) for patterns, error in ((4, 2.34444), (2, 1.5)))
    script.ship(tmp_path / "rounded", evaluation=evaluations, folder=tmp_path / "shipped")
    shipped, name = load_model(tmp_path / "shipped/small")
    assert name == "small"
    assert model_hash(shipped) == model_hash(load_model(tmp_path / "rounded")[0])
    trained = trained_of(tmp_path / "shipped/small")
    assert trained is not None
    assert trained["patterns"] == 4
    assert {name: trained[name] for name in cost} == cost | {"minutes": 1.23}
    assert trained["error"] == {"metric": "hamming", "mean": 2.3444, "low": 1.3444, "high": 3.3444, "batches": 7}
    assert trained["error_by_patterns"] == {"2": 1.5, "4": 2.3444}


def test_an_evaluation_of_another_model_is_refused(script, tmp_path):
    for seed, name in enumerate(("one", "other")):
        Memory(small_rnn(seed=seed), name).save_pretrained(tmp_path / name)
    evaluation = (report(tmp_path / "other", 4, 1.0),)
    with pytest.raises(SystemExit, match="is an evaluation of another model"):
        script.ship(tmp_path / "one", evaluation=evaluation, folder=tmp_path / "shipped")
    assert not (tmp_path / "shipped").exists()
