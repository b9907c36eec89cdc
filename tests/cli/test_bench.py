"""`ebmm bench` times what it says; how long it takes is not tested."""

import json

import pytest

from ebmm.cli import main


def test_it_measures_and_saves(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    out = tmp_path / "bench.json"
    counts = ["--patterns", "2", "--episodes", "1", "2", "--group", "2", "--counts", "1", "3", "--repeats", "1"]
    main(["bench", *counts, "--out", str(out)])
    printed = capsys.readouterr().out
    assert "2 × 2" in printed
    assert "share" in printed
    report = json.loads(out.read_text())
    one, two = report["updates"]
    assert [row["group"] for row in (one, two)] == [1, 2]
    # Four of five hops multiply the state by a matrix; an update is ten steps, each some ten passes.
    forward = 2 * 4 * 2 * 64 * (2 * 64 - 16) / 1e9
    assert 50 < one["gigaflop"] / forward < 500
    for row in report["updates"]:
        assert row["milliseconds"] > 0
        assert row["milliseconds_an_episode"] == pytest.approx(row["milliseconds"] / row["episodes"])
        assert row["teraflops"] == pytest.approx(row["gigaflop"] / row["milliseconds"], rel=1e-6)
        reached = report["matrix_product_teraflops"]
        assert row["share_of_matrix_product"] == pytest.approx(row["teraflops"] / reached)
    assert [row["patterns"] for row in report["latencies"]] == [1, 3]
    assert {"command", "device", "commit"} <= report.keys()


@pytest.mark.parametrize(
    "wrong", [["--patterns", "0"], ["--episodes", "-1"], ["--out", "missing/bench.json"], ["--profile"], ["--largest"]]
)
def test_what_cannot_be_timed_is_refused(wrong):
    with pytest.raises(SystemExit, match="expected"):
        main(["bench", *wrong])
