"""Every reported number can name where it comes from."""

import json

import jax

from ebmm.provenance import provenance


def test_it_says_what_is_needed_to_measure_again(monkeypatch):
    monkeypatch.setattr("sys.argv", ["bench.py", "--out", "a file.json"])
    monkeypatch.setenv("EBMM_COMMIT", "abc123")
    found = provenance(seed=7)
    assert found["command"] == "python bench.py --out 'a file.json'"
    assert found["seed"] == 7
    assert found["commit"] == "abc123"
    assert found["jax"] == jax.__version__
    assert json.loads(json.dumps(found)) == found


def test_the_installed_command_is_told_by_its_name_wherever_it_lies(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/some/where/bin/ebmm", "evaluate", "--on", "two words"])
    assert provenance(seed=0)["command"] == "ebmm evaluate --on 'two words'"
    monkeypatch.setattr("sys.argv", ["/some/where/ebmm/__main__.py", "recall"])
    assert provenance(seed=0)["command"] == "ebmm recall"
    monkeypatch.setattr("sys.argv", ["benchmarks/episodes.py", "strings"])
    assert provenance(seed=0)["command"] == "python benchmarks/episodes.py strings"


def test_flags_of_the_compiler_are_told_where_there_are_some(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=0")
    assert provenance(seed=0)["xla_flags"] == "--xla_gpu_autotune_level=0"
    monkeypatch.delenv("XLA_FLAGS")
    assert "xla_flags" not in provenance(seed=0)
