"""The README's example runs as it stands, but for the number of updates."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_first_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0]
    assert "updates=2000" in code
    names = {}
    exec(code.replace("updates=2000", "updates=2"), names)
    assert names["out"].trajectory.shape == (5, 8, 32)
    assert 16_000 < (tmp_path / "strings.safetensors").stat().st_size < 18_000


def test_both_commands_are_shown():
    assert "make recall" in README
    assert "make test" in README
