"""`ebmm bench` times what it says; how long it takes is not tested."""

import json
import sys

import jax
import pytest

from ebmm import layers
from ebmm.cli import main
from ebmm.experiments import EXPERIMENTS

BENCH = sys.modules["ebmm.cli.bench"]


def test_it_measures_and_saves(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    out = tmp_path / "bench.json"
    counts = ["--patterns", "2", "--episodes", "2", "--group", "4", "--counts", "1", "3", "--repeats", "1"]
    main(["bench", *counts, "--out", str(out)])
    printed = capsys.readouterr().out
    assert "2 × 2" in printed
    assert "share" in printed
    report = json.loads(out.read_text())
    (row,) = report["updates"]
    assert row["group"] == 2
    # Four of five hops multiply the state by a matrix; an update is ten steps, each some ten passes.
    forward = 2 * 4 * 2 * 64 * (2 * 64 - 16) / 1e9
    assert 50 < row["gigaflop"] / 2 / forward < 500
    assert row["milliseconds"] > 0
    assert row["milliseconds_an_episode"] == pytest.approx(row["milliseconds"] / 2)
    assert row["teraflops"] == pytest.approx(row["gigaflop"] / row["milliseconds"], rel=1e-6)
    assert row["share_of_matrix_product"] == pytest.approx(row["teraflops"] / report["matrix_product_teraflops"])
    assert [row["patterns"] for row in report["latencies"]] == [1, 3]
    assert {"command", "device", "commit"} <= report.keys()
    assert report["finished"]


def test_what_was_measured_before_an_interruption_is_saved(tmp_path, monkeypatch):
    rows = iter([{"episodes": 1, "teraflops": 0.5}])
    for name, value in (("flops_of_an_episode", 1.0), ("matrix_product_speed", 1e12)):
        monkeypatch.setattr(BENCH, name, lambda *_, value=value, **__: value)

    def measured(*_, **__):
        for row in rows:
            return row
        raise KeyboardInterrupt

    monkeypatch.setattr(BENCH, "update_speed", measured)
    out = tmp_path / "bench.json"
    with pytest.raises(KeyboardInterrupt):
        main(["bench", "--episodes", "1", "2", "--out", str(out)])
    report = json.loads(out.read_text())
    assert [row["episodes"] for row in report["updates"]] == [1]
    assert not report["finished"]


@pytest.fixture
def measured(monkeypatch):
    """Measurements that take no time; what each was asked for."""
    asked = []

    def update_speed(model, sample, **options):
        asked.append({"lowering": layers.FASTEST[jax.default_backend()], "copies": sample.copies, **options})
        made = {"patterns": 2, "milliseconds": 1.0, "milliseconds_an_episode": 1.0, "trace_seconds": 1.0}
        work = {"compile_seconds": 1.0, "peak_megabytes": 1.0, "gigaflop": 1.0, "teraflops": 0.5}
        return made | work | {"episodes": options["episodes"], "keep": options["keep"]}

    monkeypatch.setattr(BENCH, "update_speed", update_speed)
    monkeypatch.setattr(BENCH, "matrix_product_speed", lambda **_: 1e12)
    monkeypatch.setitem(layers.FASTEST, jax.default_backend(), "patches")
    return asked


def test_known_work_and_another_way_to_convolve(tmp_path, monkeypatch, measured):
    monkeypatch.setattr(BENCH, "flops_of_an_episode", lambda *_: pytest.fail("the work is known"))
    out = tmp_path / "bench.json"
    main(["bench", "--gigaflop", "3", "--lowering", "mixed", "--copies", "3", "--counts", "--out", str(out)])
    assert [(each["work"], each["lowering"], each["copies"]) for each in measured] == [(3e9, "mixed", 3)]
    assert json.loads(out.read_text())["lowering"] == "mixed"


def test_every_network_is_compiled_as_its_experiment_is():
    found = {network: EXPERIMENTS[name] for network, name in BENCH.TRAINED_BY.items()}
    assert {network: each.network for network, each in found.items()} == {
        "rnn": "GatedRNN",
        "conv": "ResNetConv",
        "small": "GatedRNN",
    }
    assert not found["conv"].settings.triton


def test_where_no_batch_fits_the_rest_is_still_measured(tmp_path, monkeypatch, capsys, measured):
    def nothing_fits(*_, **__):
        raise MemoryError("no batch fits")

    monkeypatch.setattr(BENCH, "memory_limit", lambda: 1e6)
    monkeypatch.setattr(BENCH, "largest_batch", nothing_fits)
    monkeypatch.setattr(
        BENCH, "latency", lambda *_, **__: {"patterns": 1, "write_milliseconds": 1, "read_milliseconds": 1}
    )
    out = tmp_path / "bench.json"
    options = ["--episodes", "1", "2", "--largest", "--gigaflop", "1", "--counts", "1"]
    main(["bench", *options, "--out", str(out)])
    assert "no batch fits" in capsys.readouterr().out
    report = json.loads(out.read_text())
    assert (report["largest"], len(report["latencies"]), report["finished"]) == ([], 1, True)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--patterns", "0"],
        ["--episodes", "-1"],
        ["--out", "missing/bench.json"],
        ["--profile"],
        ["--largest"],
        ["--gigaflop", "0"],
        ["--copies", "0"],
    ],
)
def test_what_cannot_be_timed_is_refused(wrong):
    with pytest.raises(SystemExit, match="expected"):
        main(["bench", *wrong])
