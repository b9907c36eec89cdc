"""`ebmm bench` times what it says; how long it takes is not tested."""

import json

import pytest

from ebmm.cli import main


def test_it_measures_and_saves(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    out = tmp_path / "bench.json"
    main(
        ["bench", "--patterns", "2", "--episodes", "1", "2", "--counts", "1", "3", "--repeats", "1", "--out", str(out)]
    )
    printed = capsys.readouterr().out
    assert "2 × 2" in printed
    assert "share" in printed
    report = json.loads(out.read_text())
    one, two = report["updates"]
    assert two["gigaflop"] == pytest.approx(2 * one["gigaflop"], rel=0.1)  # twice the episodes, twice the work
    for row in report["updates"]:
        assert row["milliseconds"] > 0
        assert row["milliseconds_an_episode"] == pytest.approx(row["milliseconds"] / row["episodes"])
        assert row["teraflops"] == pytest.approx(row["gigaflop"] / row["milliseconds"], rel=1e-6)
        reached = report["matrix_product_teraflops"]
        assert row["share_of_matrix_product"] == pytest.approx(row["teraflops"] / reached)
    assert [row["patterns"] for row in report["latencies"]] == [1, 3]
    assert {"command", "device", "commit"} <= report.keys()


@pytest.mark.parametrize("wrong", [["--patterns", "0"], ["--episodes", "-1"], ["--out", "missing/bench.json"]])
def test_what_cannot_be_timed_is_refused(wrong):
    with pytest.raises(SystemExit, match="expected"):
        main(["bench", *wrong])
