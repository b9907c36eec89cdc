"""The command line answers, and the examples run."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ebmm
from ebmm.baselines import SYSTEMS
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


@pytest.mark.parametrize("name", ["your_own_energy", "your_own_system"])
def test_the_examples_run(name, capsys):
    """As a user runs them, but for the number of updates."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        example = importlib.import_module(name)
    finally:
        sys.path.pop(0)
        SYSTEMS.pop("Matrix", None)
    damaged, recalled = example.main(updates=2)
    assert 4 < damaged < 12
    assert recalled < damaged
    assert "wrong bits of 32" in capsys.readouterr().out
