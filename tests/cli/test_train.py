"""`ebmm train` and `ebmm list`, as a user meets them."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ebmm.cli import main
from ebmm.experiments import EXPERIMENTS
from ebmm.figures import training_figure
from ebmm.files import load_tensors
from ebmm.pretrained import load_model, trained_of
from ebmm.training.settings import Stage

CACHE = Path(__file__).parents[2] / ".cache" / "jax"


@pytest.fixture(autouse=True, scope="module")
def short():
    """An experiment like `debug`, but quicker."""
    debug = EXPERIMENTS["debug"]
    settings = replace(debug.settings, updates=120, stages=(Stage(2, 8, 60), Stage(4, 8, 120)), snapshot=25)
    with pytest.MonkeyPatch.context() as patch:
        experiment = replace(debug, name="short", sizes=debug.sizes | {"hops": 1}, settings=settings)
        patch.setitem(EXPERIMENTS, "short", experiment)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a whole run, and what was printed."""
    out, printed = tmp_path_factory.mktemp("trained") / "run", io.StringIO()
    with redirect_stdout(printed):
        main(["train", "short", "--out", str(out)])
    return out, printed.getvalue()


def test_list_shows_every_experiment(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["list"])
    printed = capsys.readouterr().out
    for before, numbers, after in re.findall(r"([\w-]+)\{([\d,]+)\}([\w-]*)", printed):  # as a shell writes families
        printed += " ".join(f"{before}{number}{after}" for number in numbers.split(","))
    for name, experiment in EXPERIMENTS.items():
        assert name in printed
        assert experiment.expected in printed


def test_an_unknown_name_answers_with_the_nearest(tmp_path):
    with pytest.raises(SystemExit, match="no experiment 'binary-smal'. Did you mean binary-small?"):
        main(["train", "binary-smal", "--out", str(tmp_path / "run")])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [["--updates", "0"], ["--within", "0"], ["--updates", "5", "--within", "1"]])
def test_a_length_that_makes_no_sense_is_refused(tmp_path, wrong):
    with pytest.raises(SystemExit, match="expected"):
        main(["train", "debug", "--out", str(tmp_path / "run"), *wrong])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        ["--from-patterns", "5"],
        ["--learning-rate", "0"],
        ["--learning-rate", "inf"],
        ["--weight-decay", "-1"],
        ["--decay", "2"],
        ["--group", "0"],
        ["--held-out", "-1"],
        ["--copies", "0"],
        ["--last-steps", "0"],
        ["--last-steps", "3"],
        ["--stages", "8x16"],
        ["--write-steps", "0"],
        ["--read-steps", "-1"],
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, wrong):
    with pytest.raises(SystemExit, match=wrong[0]):
        main(["train", "debug", "--out", str(tmp_path / "run"), *wrong])
    assert not (tmp_path / "run").exists()


def test_half_precision_is_for_energies(tmp_path):
    with pytest.raises(SystemExit, match="MANN is no energy; expected float32"):
        main(["train", "binary-16-mann", "--out", str(tmp_path / "run"), "--precision", "float16"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "option", [["--last-steps", "1"], ["--unroll", "True"], ["--write-steps", "5"], ["--read-steps", "5"]]
)
def test_what_is_of_steps_is_refused_for_systems_that_are_no_energy(tmp_path, option):
    with pytest.raises(SystemExit, match=f"{option[0]}: MANN is no energy"):
        main(["train", "binary-16-mann", "--out", str(tmp_path / "run"), *option])
    assert not (tmp_path / "run").exists()


def test_it_learns_as_told(tmp_path, capsys):
    out = tmp_path / "run"
    told = ["--from-patterns", "3", "--optimizer", "soap", "--learning-rate", "0.002", "--weight-decay", "0.3"]
    told += ["--decay", "1.0", "--precision", "float16", "--group", "2", "--copies", "2", "--last-steps", "1"]
    told += ["--unroll", "True", "--held-out", "0"]
    main(["train", "short", "--out", str(out), *told, "--minutes", "0"])
    printed = " ".join(capsys.readouterr().out.split())
    assert f"--seed 0 {' '.join(told)} --resume" in printed
    experiment = json.loads((out / "config.json").read_text())["experiment"]
    settings = experiment["settings"]
    assert experiment["held_out"] == 0
    assert (settings["optimizer"], settings["learning_rate"], settings["decay"]) == ("soap", 0.002, 1.0)
    assert (settings["weight_decay"], settings["unroll"]) == (0.3, True)
    assert (settings["precision"], settings["group"], settings["copies"]) == ("float16", 2, 2)
    assert settings["last_steps"] == 1
    assert [stage["patterns"] for stage in settings["stages"]] == [4]


def test_it_learns_as_many_steps_as_it_is_told(tmp_path, capsys):
    out = tmp_path / "run"
    told = ["--write-steps", "1", "--read-steps", "3"]
    main(["train", "short", "--out", str(out), *told, "--minutes", "0"])
    assert f"{' '.join(told)} --resume" in " ".join(capsys.readouterr().out.split())
    model = load_model(out / "model")[0]
    assert (len(model.write_rates.raw), len(model.read_rates.rates())) == (1, 3)


def test_it_goes_through_the_stages_that_it_is_told(tmp_path, capsys):
    out = tmp_path / "run"
    main(["train", "short", "--out", str(out), "--stages", "2x4:3", "4x2:9", "--minutes", "0"])
    assert "--stages 2x4:3 4x2:9 --resume" in " ".join(capsys.readouterr().out.split())
    stages = json.loads((out / "config.json").read_text())["experiment"]["settings"]["stages"]
    assert [tuple(stage.values()) for stage in stages] == [(2, 4, 3), (4, 2, 9)]
    with pytest.raises(SystemExit, match="expected at least one pattern, one episode and one update"):
        main(["train", "short", "--out", str(tmp_path / "other"), "--stages", "2x0:3"])


def test_it_trains_and_says_how_to_measure(trained, capsys):
    out, printed = trained
    printed = " ".join(printed.split())
    assert "on to 4 patterns" in printed
    assert "held out" in printed
    assert "Done: 120 updates" in printed
    command = printed.partition("measure it with: ebmm ")[2].split()  # as it stands, however long the path is
    main([*command, "--batches", "2"])
    assert "read step 2" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="holds a run already"):
        main(["train", "short", "--out", str(out)])


def test_an_experiment_starts_from_its_own_model_unless_told_not_to(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "short", replace(EXPERIMENTS["short"], start="binary-rnn"))
    with pytest.raises(SystemExit, match="holds another model than short trains"):
        main(["train", "short", "--out", str(tmp_path / "started")])
    main(["train", "short", "--out", str(tmp_path / "fresh"), "--fresh", "--minutes", "0"])
    assert "--seed 0 --fresh --resume" in " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / "fresh/config.json").read_text())["start"] is None


def test_it_stops_in_time_and_says_how_to_go_on(tmp_path, capsys):
    out = tmp_path / "run"
    main(["train", "short", "--out", str(out), "--minutes", "0"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "Stopped after update 1 and saved" in printed
    assert "--seed 0 --resume" in printed
    main(["train", "short", "--out", str(out), "--resume"])
    assert "Done: 120 updates" in " ".join(capsys.readouterr().out.split())


def started(out, *options, name="debug"):
    cached = {"JAX_COMPILATION_CACHE_DIR": str(CACHE), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
    command = [sys.executable, "-m", "ebmm", "train", name, "--out", str(out), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | cached
    )


def until_a_checkpoint(process, out):
    while not list(out.glob("checkpoints/update-*50.safetensors")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)  # there is nothing else to wait on


def test_kill_nine_leaves_a_run_that_resumes_to_the_same_model(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    length = ["--updates", "120"]
    process = started(killed, *length)
    until_a_checkpoint(process, killed)
    process.kill()
    process.communicate()
    main(["train", "debug", "--out", str(killed), *length, "--resume"])
    main(["train", "debug", "--out", str(whole), *length])
    one, other = (load_tensors(run / "model/model.safetensors", format="ebmm-model")[0] for run in (killed, whole))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_a_polite_signal_saves_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "run"
    process = started(out, "--updates", "1000000")
    until_a_checkpoint(process, out)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    assert "Stopped after update" in printed
    assert "--seed 0 --updates 1000000 --resume" in " ".join(printed.split())


def test_tensorboard_is_missed_before_a_run_begins(tmp_path, monkeypatch):
    monkeypatch.setattr("ebmm.training.tracking.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install tensorboardX"):
        main(["train", "debug", "--out", str(tmp_path / "run"), "--tensorboard"])
    assert not list(tmp_path.iterdir())


def test_it_starts_from_a_saved_model(trained, tmp_path, capsys):
    first, printed = trained
    second, third = (str(tmp_path / name) for name in ("second", "third"))
    main(["train", "short", "--out", second, "--start", f"{first}/model", "--updates", "50", "--tensorboard"])
    errors = [float(text.split("held out ")[1].split(",")[0]) for text in (printed, capsys.readouterr().out)]
    assert errors[1] < errors[0]  # after 25 updates: from the trained model, and from a fresh one
    assert list((tmp_path / "second/tensorboard").iterdir())
    before, after = (trained_of(Path(folder) / "model") for folder in (first, second))
    assert (before["updates"], after["updates"]) == (120, 170)
    assert after["minutes"] > before["minutes"] > 0
    assert json.loads(Path(second, "config.json").read_text())["before"]["updates"] == 120
    with pytest.raises(SystemExit, match="Resume it as it was started"):
        main(["train", "short", "--out", second, "--updates", "50", "--resume"])
    with pytest.raises(SystemExit, match="holds another model than binary-small trains"):
        main(["train", "binary-small", "--out", third, "--start", f"{first}/model"])
    with pytest.raises(SystemExit, match="Did you mean binary-rnn"):
        main(["train", "short", "--out", third, "--start", "binary-rn"])
    with pytest.raises(SystemExit, match="got --fresh and --start"):
        main(["train", "short", "--out", third, "--start", "binary-rnn", "--fresh"])
    assert not Path(third).exists()


def test_the_curves_of_runs_are_drawn(tmp_path):
    lines = [
        {"update": 25, "error": 9.0, "held_out": None},
        {"update": 50, "error": 8.0, "event": "on to 4 patterns", "held_out": 7.0},
        {"update": 75, "error": 30.0, "event": "rolled back to update 0"},
    ]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')
    for runs in (["one"], ["one", "two"]):
        picture = tmp_path / f"{len(runs)}.png"
        main(["curve", *(str(tmp_path / name) for name in runs), "--picture", str(picture)])
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("errors", [(10.7, 9.0), (128.0, 3.0), (0.4, 0.31)])
def test_the_axis_of_a_curve_has_numbers_to_read_it_by(errors):
    axis = training_figure({"run": [{"update": 25 * i, "error": e} for i, e in enumerate(errors)]}).axes[0]
    low, high = axis.get_ylim()
    assert sum(low <= place <= high for place in axis.get_yticks()) >= 3


def test_a_curve_needs_a_run_with_metrics(tmp_path):
    with pytest.raises(SystemExit, match="expected the metrics of a run"):
        main(["curve", str(tmp_path), "--picture", str(tmp_path / "curve.png")])
    (tmp_path / "metrics.jsonl").touch()
    with pytest.raises(SystemExit, match="has no metrics yet"):
        main(["curve", str(tmp_path), "--picture", str(tmp_path / "curve.png")])
