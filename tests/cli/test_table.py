"""`ebmm table`: what it prints, what it makes, and what it leaves alone."""

import json
from dataclasses import replace

import pytest

from ebmm.baselines import ExactStore, Hopfield
from ebmm.cli import main
from ebmm.evaluation.protocols import PROTOCOLS, Protocol
from ebmm.experiments import EXPERIMENTS, Experiment
from ebmm.paper import TABLES, Cell, Column, System, save_cell, search
from ebmm.rehearsal import Rehearsal, with_rehearsal
from ebmm.training.settings import Settings, Stage

BINARY, BASELINES = TABLES["binary"], TABLES["baselines"]


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
    columns = (Column("4", "4 patterns", "strings", 4),)
    debug = EXPERIMENTS["debug"]
    settings = replace(debug.settings, updates=30, stages=(Stage(4, 2, 30),), snapshot=10, average=None)
    monkeypatch.setitem(
        EXPERIMENTS,
        "debug",
        replace(debug, settings=settings, sizes=debug.sizes | {"hops": 1}, write_steps=1, read_steps=1, held_out=0),
    )
    monkeypatch.setitem(TABLES, "binary", replace(BINARY, columns=columns, systems=systems, chance=4.0))


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
    assert len(found) == len(BINARY.places) > 5 * len(BINARY.systems) / 2
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
        (["--evaluation", "out.json"], "--evaluation out.json: got 0 runs to add"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"ebmm: .*{message}"):
        main(["table", "binary", *options])
    assert not list(tmp_path.iterdir())


def test_a_rehearsed_cell_tells_how_it_practised(tiny, rnn, tmp_path, capsys, monkeypatch):
    bits, rehearsal = rnn.pattern_shape[0], Rehearsal("bits:0.5", 2, reveal=True)
    row = System("rehearsed", "rehearsed", build=lambda _: with_rehearsal(rnn, rehearsal), bundled="x", batches=2)
    monkeypatch.setitem(PROTOCOLS, "strings", replace(PROTOCOLS["strings"], bits=bits))
    monkeypatch.setitem(TABLES, "binary", replace(TABLES["binary"], systems=(row,)))
    main(["table", "binary", "--run", "--results", str(tmp_path), "--picture", str(tmp_path / "binary.png")])
    cell = json.loads((tmp_path / "rehearsed-4.json").read_text())
    assert cell["model"]["rehearsal"] == rehearsal.report()
    assert (cell["memory_size"], cell["batches"], cell["minutes"]) == (rnn.memory_size, 2, None)


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

    elsewhere, config = tmp_path / "elsewhere", runs / "debug/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"before": {"updates": 7, "minutes": 1}}))
    main(["table", "binary", "--add", str(runs / "debug"), "--results", str(elsewhere)])
    added = json.loads((elsewhere / "ebmm-rnn-4.json").read_text())
    assert (added["value"], added["updates"]) == (cell["value"], cell["updates"] + 7)
    assert added["minutes"] == pytest.approx(cell["minutes"] + 1)

    capsys.readouterr()
    options = ["--on", "strings", "--patterns", "4", "--batches", "5", "--out", str(tmp_path / "out.json")]
    main(["evaluate", str(runs / "debug" / "model"), *options])  # the same batches, measured by the other command
    assert json.loads((tmp_path / "out.json").read_text())["error"]["mean"] == cell["value"]

    taken = tmp_path / "taken"
    take = ["table", "binary", "--add", str(runs / "debug"), "--results", str(taken), "--evaluation"]
    main([*take, str(tmp_path / "out.json")])
    own = ("measuring_minutes",)
    for key, value in json.loads((taken / "ebmm-rnn-4.json").read_text()).items():
        assert key in own or value == added[key]
    rehearsed = tmp_path / "rehearsed.json"  # another way to write is no cell of the model as learned
    rehearsed.write_text(json.dumps(json.loads((tmp_path / "out.json").read_text()) | {"rehearsed": 3}))
    main(["evaluate", str(runs / "debug" / "model"), *options[:5], "4", *options[6:]])
    other = "something else of it"
    for wrong, message in (
        (tmp_path / "out.json", other),
        (rehearsed, other),
        (config, "is no evaluation of a model"),
    ):
        with pytest.raises(SystemExit, match=message):
            main([*take, str(wrong)])


def test_a_run_of_another_experiment_is_no_cell(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text('{"experiment": {"name": "binary-small"}}')
    with pytest.raises(SystemExit, match="a run of binary-small, which is no cell of the table binary"):
        main(["table", "binary", "--add", str(run), "--results", str(tmp_path)])
    (run / "config.json").write_text("[]")
    with pytest.raises(SystemExit, match="config.json is damaged"):
        main(["table", "binary", "--add", str(run), "--results", str(tmp_path)])


@pytest.fixture
def by_damage(monkeypatch):
    """The table of other systems on strings of 16 bits: one training for four cells, two yardsticks, two stores."""
    columns = (Column("block", "half", "halved"), Column("salt", "salt", "salted"))
    for column, damage in zip(columns, ("bits:0.5", "salt-and-pepper:0.15"), strict=True):
        monkeypatch.setitem(PROTOCOLS, column.on, Protocol("strings", 64, damage, bits=16))
    vaes = [System(f"vae-{n}", f"VAE, {n}", experiment="tiny-vae", read_steps=n, batches=4) for n in (2, 3)]

    def store(patterns):
        return ExactStore((16,), patterns=patterns, domain=(-1.0, 1.0))

    systems = (
        System("nothing", "doing nothing", yardstick="nothing", batches=4),
        System("exact", "exact", yardstick="exact", batches=4, patterns=8),
        *(replace(vae, published="vae" if vae.read_steps == 2 else None, patterns=8) for vae in vaes),
        System("store", "store", build=store, batches=4, patterns=8),
        System("store-told", "store, told", build=store, batches=4, patterns=8, told=("block",), columns=("block",)),
    )
    settings = Settings(updates=2, stages=(Stage(8, 2, 2),), learning_rate=1e-2, snapshot=2, patience=None)
    sizes = {"latents": 4, "hidden": 8}
    tiny = Experiment("tiny-vae", "", "VAE", "halved", settings, "", sizes=sizes, bits=16)
    monkeypatch.setitem(EXPERIMENTS, "tiny-vae", tiny)
    monkeypatch.setattr(search, "RATES", (0.001, 0.1))
    monkeypatch.setattr(search, "BATCHES", 2)
    monkeypatch.setitem(TABLES, "baselines", replace(BASELINES, columns=columns, systems=systems))


def test_one_training_fills_several_cells_each_with_its_own_step_size(by_damage, tmp_path, capsys):
    results, runs = tmp_path / "results", tmp_path / "runs"
    command = ["table", "baselines", "--run", "--json", "--results", str(results), "--runs", str(runs)]
    main(command)
    found = {(each["system"], each["damage"]): each for each in json.loads(capsys.readouterr().out)}
    assert len(found) == 5 * 2 + 1
    assert [path.name for path in runs.iterdir()] == ["tiny-vae"]
    assert found["vae-2", "block"]["published"] == 109.08
    assert found["vae-2", "block"]["updates"] == 2
    assert found["nothing", "block"]["value"] == pytest.approx(4, abs=0.6)  # a quarter of 16 bits
    assert (found["nothing", "block"]["patterns"], found["nothing", "block"]["memory_size"]) == (64, 0)
    assert (found["store", "block"]["patterns"], found["store", "block"]["memory_size"]) == (8, 8)
    assert found["store-told", "block"]["value"] < found["store", "block"]["value"]  # it is told what to compare
    assert found["exact", "block"]["value"] == found["store-told", "block"]["value"]
    for steps in (2, 3):
        for damage in ("block", "salt"):
            cell = json.loads((results / f"vae-{steps}-{damage}.json").read_text())
            searched = cell["search"]
            assert searched["chosen"] == float(min(searched["errors"], key=searched["errors"].get))
            settings = cell["model"]["settings"]
            assert (settings["read_steps"], settings["read_rate"]) == (steps, searched["chosen"])
            assert len(cell["iterates"]) == steps
            assert cell["protocol"]["damage"] == PROTOCOLS["halved" if damage == "block" else "salted"].damage

    elsewhere = tmp_path / "elsewhere"
    main(["table", "baselines", "--add", str(runs / "tiny-vae"), "--results", str(elsewhere)])
    assert len(list(elsewhere.iterdir())) == 4
    for path in elsewhere.iterdir():
        assert json.loads(path.read_text())["value"] == json.loads((results / path.name).read_text())["value"]


def test_the_page_of_other_systems_tells_all_of_a_cell(tmp_path, capsys):
    origin = {"device": "some GPU", "search": {"chosen": 0.03, "batches": 8}}
    made = {"updates": 30_000, "minutes": 4.26, "compile_minutes": 0.1, "origin": origin}
    save_cell(BASELINES, Cell("vae-50", 64, 0, 98.5, 95.0, 101.0, 1000, [], damage="block", **made), tmp_path)
    save_cell(BASELINES, Cell("deep-image-prior", 16, 0, 30.0, 30.0, 30.0, 1, [], damage="salt"), tmp_path)
    picture = tmp_path / "baselines.png"
    main(["table", "baselines", "--results", str(tmp_path), "--markdown", "--picture", str(picture)])
    page = capsys.readouterr().out
    assert "| VAE, 50 read steps | 0 | 98.50 | 95.00 to 101.00 | 109.08 | 1,000 of 64 | 30,000 | 4.3 |" in page
    assert "Step sizes, the best of a grid on training drawings: VAE, 50 read steps: 0.03." in page
    assert "| Memory Network | – | – | – | ≈3.9 | – | – | – |" in page
    assert "Published, Memory Network: interpolated between 4.64" in page
    assert "told where a block is | 0 | 30.00 | – | – | 1 of 16 | – | – |" in page
    assert "Trained on: some GPU." in page
    assert picture.read_bytes().startswith(b"\x89PNG")

    main(["table", "baselines", "--results", str(tmp_path)])
    printed = capsys.readouterr().out  # on 80 columns
    assert "98.50" in printed
    assert "…" not in printed


def test_numbers_of_patterns_are_no_columns_of_the_other_systems():
    with pytest.raises(SystemExit, match="--patterns 4: the table baselines has no such columns"):
        main(["table", "baselines", "--patterns", "4"])
