"""`ebmm table`: what it prints, what it makes, and what it leaves alone."""

import json
from dataclasses import replace

import pytest

from ebmm.baselines import Hopfield
from ebmm.cli import main
from ebmm.experiments import EXPERIMENTS
from ebmm.paper import TABLES, Cell, System, save_cell
from ebmm.training.settings import Stage

BINARY = TABLES["binary"]


@pytest.fixture
def results(tmp_path):
    """A folder with four cells and two other files."""
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "small.json").write_text("{}")
    made = {"minutes": 7.04, "compile_minutes": 0.5, "updates": 32_000, "origin": {"device": "some GPU"}}
    curve = {"update": [100, 200], "error": [8.0, 2.0]}
    for system, patterns, value, more in (
        ("hopfield-hebb-asynchronous", 64, 13.5, {}),
        ("hopfield-hebb-synchronous", 64, 12.25, {}),
        ("ebmm-rnn", 64, 0.625, made | {"curve": curve}),
        ("lstm", 96, 31.5, made),
    ):
        spread = {"mean": value, "low": value - 0.1, "high": value + 0.1}
        cell = Cell(system, patterns, 8256, value, value - 0.1, value + 0.1, 1000, [spread], **more)
        save_cell(BINARY, cell, folder)
    return folder


@pytest.fixture
def tiny(monkeypatch):
    """The table with one trained and one untrained system of 16 bits."""
    systems = (
        System("hopfield", "Hopfield", build=lambda _: Hopfield(pattern_shape=(16,)), batches=3),
        System("ebmm-rnn", "EBMM", experiment="debug", published="ebmm-rnn", batches=5),
    )
    debug = EXPERIMENTS["debug"]
    settings = replace(debug.settings, updates=30, stages=(Stage(4, 2, 30),), snapshot=10, average=None)
    monkeypatch.setitem(
        EXPERIMENTS, "debug", replace(debug, settings=settings, sizes=debug.sizes | {"hops": 1}, steps=1, held_out=0)
    )
    monkeypatch.setitem(TABLES, "binary", replace(BINARY, patterns=(4,), systems=systems, chance=4.0))


def test_it_prints_ours_beside_the_paper_s(results, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    main(["table", "binary", "--results", str(results)])
    printed, told = capsys.readouterr()
    for words in ("0.62 (0.5)", "12.25* (13.0)", "13.50 (13.0)", "– (4.25)", "32.00", "32,000, 7.0 + 0.5", "some GPU"):
        assert words in printed
    assert "Not all cells are in" in told


def test_json_is_all_that_it_prints(results, capsys):
    main(["table", "binary", "--results", str(results), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found) == len(BINARY.systems) * 5
    assert all(set(each) == {"system", "patterns", "memory_size", "value", "published", "batches"} for each in found)
    by_place = {(each["system"], each["patterns"]): each for each in found}
    ours = {"memory_size": 8256, "value": 0.625, "published": 0.5, "batches": 1000}
    assert by_place["ebmm-rnn", 64] == {"system": "ebmm-rnn", "patterns": 64, **ours}
    assert by_place["mann", 64]["value"] is None
    assert by_place["mann", 64]["published"] == 4.25


def test_markdown_is_a_page_with_the_pictures_that_were_drawn(results, tmp_path, capsys):
    picture = tmp_path / "binary.png"
    main(["table", "binary", "--results", str(results), "--markdown", "--picture", str(picture)])
    page = capsys.readouterr().out
    assert "| EBMM, gated RNN | 8,256 | 1,000 | – (0.0) | – (0.0) | – (0.1) | 0.62 (0.5) | – (4.2) |" in page
    assert r"12.25\* (13.0)" in page
    assert "| chance, clamped | 0 | – | 32.00 |" in page
    assert "(binary.png)" in page
    assert "(binary-training.png)" in page
    assert str(tmp_path) not in page
    for name in ("binary.png", "binary-training.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_without_any_cell_the_table_is_empty_and_can_be_drawn(tmp_path, capsys):
    picture = tmp_path / "empty.png"
    options = ["--only", "mann", "--patterns", "16", "--picture", str(picture), "--markdown"]
    main(["table", "binary", "--results", str(tmp_path / "missing"), *options])
    assert "| MANN | – | – | – (0.1) |" in capsys.readouterr().out
    assert picture.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "nothing"], "--only nothing: expected hopfield-hebb"),
        (["--patterns", "7"], "--patterns 7: expected 16"),
        (["--json", "--markdown"], "expected one of them"),
        (["--minutes", "-1"], "--minutes -1.0: expected"),
        (["--picture", "x.doc"], "--picture x.doc: expected"),
        (["--add", "missing"], "missing/config.json does not exist"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"ebmm: .*{message}"):
        main(["table", "binary", *options])
    assert not list(tmp_path.iterdir())


def test_an_unknown_table_and_a_broken_cell_are_told(results):
    with pytest.raises(SystemExit, match="no table 'unary'; expected binary"):
        main(["table", "unary"])
    (results / "mann-16.json").write_text('{"format": ')
    with pytest.raises(SystemExit, match="mann-16.json is not JSON .*delete it and make it again"):
        main(["table", "binary", "--results", str(results)])


def test_what_is_missing_is_trained_in_two_goes_measured_and_then_left_alone(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EBMM_COMMIT", "abc")
    results, runs = tmp_path / "results", tmp_path / "runs"
    command = ["table", "binary", "--run", "--json", "--results", str(results), "--runs", str(runs)]
    main([*command, "--only", "hopfield"])
    assert not runs.exists()
    main([*command, "--only", "ebmm-rnn", "--minutes", "0"])  # stops after the first update
    assert not (results / "ebmm-rnn-4.json").exists()
    assert (runs / "debug" / "checkpoints").is_dir()
    assert "The same command goes on" in capsys.readouterr().err
    main(command)
    found = {each["system"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["hopfield"]["batches"] == 3
    assert found["ebmm-rnn"]["memory_size"] == 17 * 8
    text = (results / "ebmm-rnn-4.json").read_text()
    cell = json.loads(text)
    assert (cell["updates"], cell["batches"], len(cell["iterates"])) == (30, 5, 1)
    assert cell["experiment"]["name"] == "debug"
    assert cell["minutes"] > 0
    assert cell["commit"] == "abc"
    assert {"command", "seed", "device", "jax", "curve", "measured_with"} <= cell.keys()
    assert str(tmp_path) not in text

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    main(command)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before

    elsewhere = tmp_path / "elsewhere"
    main(["table", "binary", "--add", str(runs / "debug"), "--results", str(elsewhere)])
    added = json.loads((elsewhere / "ebmm-rnn-4.json").read_text())
    assert (added["value"], added["minutes"]) == (cell["value"], cell["minutes"])

    capsys.readouterr()
    options = ["--on", "strings", "--patterns", "4", "--batches", "5", "--out", str(tmp_path / "out.json")]
    main(["evaluate", str(runs / "debug" / "model"), *options])  # the same batches, measured by the other command
    assert json.loads((tmp_path / "out.json").read_text())["error"]["mean"] == cell["value"]


def test_a_run_of_another_experiment_is_no_cell(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text('{"experiment": {"name": "binary-small"}}')
    with pytest.raises(SystemExit, match="a run of binary-small, which is no cell of the table binary"):
        main(["table", "binary", "--add", str(run), "--results", str(tmp_path)])
    (run / "config.json").write_text("[]")
    with pytest.raises(SystemExit, match="config.json is damaged"):
        main(["table", "binary", "--add", str(run), "--results", str(tmp_path)])
