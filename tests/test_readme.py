"""The README's example runs as it stands, but for the number of updates."""

import re
from pathlib import Path

import jax

import ebmm

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_first_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0]
    assert "updates=2000" in code
    names = {}
    exec(code.replace("updates=2000", "updates=2"), names)
    assert names["out"].trajectory.shape == (5, 8, 32)
    assert 16_000 < (tmp_path / "strings.safetensors").stat().st_size < 18_000


def test_the_example_of_data_runs_without_a_download():
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL) if "Episodes" in block)
    names = {"ebmm": ebmm, "jax": jax}
    exec(code, names)
    assert names["images"].shape == names["damaged_images"].shape == (64, 32, 32, 1)


def test_both_commands_are_shown():
    assert "make recall" in README
    assert "make test" in README
