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
