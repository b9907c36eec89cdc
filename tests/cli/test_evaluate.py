"""`ebmm evaluate` measures, prints, saves, and refuses what it cannot do."""

import json
from dataclasses import replace

import jax
import pytest

import ebmm
from ebmm.careful import carefully
from ebmm.cli import main
from ebmm.data.binary import strings
from ebmm.energies import GatedRNN
from ebmm.evaluation.errors import measure_errors
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.fewer import with_steps
from ebmm.rehearsal import with_rehearsal


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model of 128-bit strings, far too small to be any good."""
    energy = GatedRNN(bits=128, memory_width=3, hidden=8, hops=2, key=jax.random.key(0))
    patterns = strings(128).draw(4, key=jax.random.key(1))
    model = ebmm.new_model(energy, patterns, domain=(-1.0, 1.0), write_steps=1, read_steps=2)
    folder = tmp_path_factory.mktemp("models") / "small"
    ebmm.Memory(model, "small").save_pretrained(folder)
    return folder


def test_everything_is_measured_printed_and_saved(saved, tmp_path, capsys):
    out, picture = tmp_path / "out.json", tmp_path / "out.png"
    options = ["--on", "strings", "--patterns", "4", "--batches", "20", "--seed", "3", "--energies"]
    strengths = ["--strengths", "bits:0.25", "bits:0.75"]
    main(["evaluate", str(saved), *options, *strengths, "--out", str(out), "--picture", str(picture)])
    printed = capsys.readouterr().out
    for words in ("doing nothing", "read step 2", "exact store", "bits:0.75", "non-memories", "random bits"):
        assert words in printed
    report = json.loads(out.read_text())
    assert report["model"]["name"] == "small"
    assert report["memory"] == {"floats": 387, "bits": 387 * 32, "bits_per_pattern": 387 * 8}
    assert (report["on"], report["patterns"], report["batches"], report["seed"]) == ("strings", 4, 20, 3)
    assert report["yardsticks"]["nothing"]["mean"] == pytest.approx(32, abs=2)
    assert report["strengths"]["bits:0.25"]["yardsticks"]["nothing"]["mean"] == pytest.approx(16, abs=3)
    assert len(report["iterates"]) == 2
    assert {"command", "commit", "device", "jax", "wall_seconds"} <= report.keys()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_same_seed_gives_the_same_numbers(saved, tmp_path):
    reports = []
    for index, seed in enumerate(["0", "0", "1"]):
        out = tmp_path / f"{index}.json"
        main(
            [
                "evaluate",
                str(saved),
                "--on",
                "strings",
                "--patterns",
                "4",
                "--batches",
                "4",
                "--seed",
                seed,
                "--out",
                str(out),
            ]
        )
        reports.append(json.loads(out.read_text())["iterates"])
    assert reports[0] == reports[1] != reports[2]


def test_without_a_model_and_without_a_download_there_are_the_yardsticks(capsys):
    main(["evaluate", "--batches", "2", "--strengths", "block:8"])
    printed = capsys.readouterr().out
    assert "blanked" in printed
    assert "read step" not in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on", "nothing"], "--on nothing: expected strings, omniglot"),
        (["--batches", "0"], "batches: got 0"),
        (["--damage", "blok:3"], "damage 'blok:3': expected block:SIZE"),
        (["--damage", "block:40"], "size 40; expected at most 32"),
        (["--patterns", "1000"], "1000 to draw from 640"),
        (["--patterns", "0"], "patterns: got 0"),
        (["--split", "train"], "got split 'train'; expected test"),
        (["--energies"], "need a model"),
        (["--out", "missing/out.json"], "--out missing/out.json: expected"),
        (["--picture", "out.doc"], "--picture out.doc: expected"),
        (["no-such-folder"], "no-such-folder does not exist"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"ebmm: .*{message}"):
        main(["evaluate", *options])
    assert not list(tmp_path.iterdir())


def test_a_model_of_other_patterns_is_refused(saved):
    with pytest.raises(SystemExit, match=r"shape \(128,\).*\(32, 32, 1\)"):
        main(["evaluate", str(saved)])


def test_a_model_is_read_in_more_steps_than_it_has_learned(saved, tmp_path, capsys):
    out = tmp_path / "out.json"
    options = ["--on", "strings", "--patterns", "4", "--batches", "4", "--out", str(out)]
    main(["evaluate", str(saved), *options, "--read-steps", "4"])
    report = json.loads(out.read_text())
    assert (report["read_steps"], len(report["iterates"]), report["shorter_steps"]) == (4, 4, False)
    assert "read step 4" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="--read-steps needs a model"):
        main(["evaluate", "--on", "strings", "--read-steps", "4"])


def test_a_model_is_written_with_care(saved, tmp_path, capsys):
    """Its steps made ten times as long, so that they go too far and a shorter length is kept."""
    out, folder = tmp_path / "out.json", tmp_path / "long"
    model = with_steps(ebmm.Memory.from_pretrained(saved).model, 10.0)
    ebmm.Memory(model, "long").save_pretrained(folder)
    on = ["--on", "strings", "--patterns", "4", "--batches", "2"]
    main(["evaluate", str(folder), *on, "--careful", "--out", str(out)])
    assert "written with care" in " ".join(capsys.readouterr().out.split())
    report = json.loads(out.read_text())
    episodes = replace(PROTOCOLS["strings"], patterns=4).episodes("test")
    key = jax.random.fold_in(jax.random.key(0), 0)
    plain, expected = (measure_errors(each, episodes, key=key, batches=2) for each in (model, carefully(model)))
    assert report["careful"]
    assert report["error"]["mean"] == pytest.approx(expected.read.mean())
    assert report["error"]["mean"] != pytest.approx(plain.read.mean())
    with pytest.raises(SystemExit, match="--careful needs a model"):
        main(["evaluate", "--on", "strings", "--careful"])


def test_a_model_is_written_with_rehearsal(saved, tmp_path, capsys):
    """Under the damage of the protocol, whose reader is told what is undamaged."""
    out = tmp_path / "out.json"
    options = ["--on", "strings", "--patterns", "4", "--batches", "2", "--rehearse", "30", "--as-learned"]
    main(["evaluate", str(saved), *options, "--out", str(out)])
    assert "30 steps of rehearsal" in " ".join(capsys.readouterr().out.split())
    report = json.loads(out.read_text())
    model, episodes = ebmm.Memory.from_pretrained(saved).model, replace(PROTOCOLS["strings"], patterns=4).episodes()
    key = jax.random.fold_in(jax.random.key(0), 0)
    rehearsed = with_rehearsal(model, ebmm.Rehearsal(episodes.damage, 30, reveal=True))
    plain, expected = (measure_errors(each, episodes, key=key, batches=2) for each in (model, rehearsed))
    assert report["rehearsed"] == 30
    assert report["error"]["mean"] == pytest.approx(expected.read.mean())
    assert report["error"]["mean"] != pytest.approx(plain.read.mean())
    with pytest.raises(SystemExit, match="--rehearse needs a model"):
        main(["evaluate", "--on", "strings", "--rehearse", "3"])
    with pytest.raises(SystemExit, match="got 0 steps and 16 parts; expected at least 1"):
        main(["evaluate", str(saved), "--on", "strings", "--rehearse", "0"])
    with pytest.raises(SystemExit, match="--rehearse-under bits:0.1: add --rehearse STEPS"):
        main(["evaluate", str(saved), "--on", "strings", "--rehearse-under", "bits:0.1"])


def test_it_can_practise_under_other_damage_than_that_of_the_test(saved, tmp_path, capsys):
    out, found = tmp_path / "out.json", {}
    options = ["--on", "strings", "--patterns", "4", "--batches", "2", "--rehearse", "30", "--out", str(out)]
    for under in ("bits:0.5", "bits:0.1/bits:0.9"):
        main(["evaluate", str(saved), *options, "--rehearse-under", under])
        report = json.loads(out.read_text())
        assert report["damage"] == "bits:0.5"
        assert report["rehearsal"]["damage"] == under
        found[under] = report["error"]["mean"]
        printed = " ".join(capsys.readouterr().out.split())
        assert (f"steps of rehearsal under {under}" in printed) == (under != "bits:0.5")
    assert len(set(found.values())) == 2
