"""The command line answers, and the demonstration demonstrates."""

import subprocess
import sys
from pathlib import Path

import pytest

import ebmm
from ebmm.cli import main

ROOT = Path(__file__).parents[2]


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "recall" in capsys.readouterr().out


def test_version(capsys):
    main(["--version"])
    assert capsys.readouterr().out.strip() == ebmm.__version__


def test_python_m_ebmm_is_the_same_command():
    out = subprocess.run([sys.executable, "-m", "ebmm", "--version"], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ebmm.__version__


def test_recall_shows_what_it_recalls(tmp_path, capsys):
    picture = tmp_path / "recall.png"
    main(["recall", "--updates", "2", "--picture", str(picture)])
    out = capsys.readouterr().out
    assert "read step 5" in out
    assert "4,224 floats" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "wrong", [["--picture", "missing/recall.png"], ["--picture", "recall.doc"], ["--updates", "0"]]
)
def test_recall_refuses_before_it_works(wrong, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"--\w+ .*: expected"):
        main(["recall", *wrong])
    assert not list(tmp_path.iterdir())


def test_the_example_runs(capsys):
    """As a user runs it, but for the number of updates."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import your_own_energy
    finally:
        sys.path.pop(0)
    damaged, recalled = your_own_energy.main(updates=2)
    assert 4 < damaged < 12
    assert recalled < damaged
    assert "wrong bits of 32" in capsys.readouterr().out
