"""`ebmm recall` stores, damages, recalls and draws, with the bundled model and with saved ones."""

import json
from pathlib import Path

import jax
import pytest
from drawings_for_tests import Associative

import ebmm
from ebmm.baselines import SYSTEMS
from ebmm.cli import main
from ebmm.cli.compiled import keep_compiled
from ebmm.cli.load import expected_error, load_warning
from ebmm.cli.recall import tile_of
from ebmm.data.binary import strings
from ebmm.energies import GatedRNN


@pytest.fixture(scope="module")
def of_strings(tmp_path_factory):
    energy = GatedRNN(bits=32, memory_width=3, hidden=8, hops=2, key=jax.random.key(0))
    patterns = strings(32).draw(4, key=jax.random.key(1))
    folder = tmp_path_factory.mktemp("models") / "strings"
    model = ebmm.new_model(energy, patterns, domain=(-1.0, 1.0), write_steps=1, read_steps=2)
    ebmm.Memory(model, "small-strings", trained={"patterns": 5}).save_pretrained(folder)
    return str(folder)


def test_the_bundled_model_recovers_most_of_what_was_damaged(tmp_path, capsys):
    """Four characters are few for it, so that it writes them with shorter steps: with its own it leaves 85 wrong."""
    picture = tmp_path / "recall.png"
    main(["recall", "--patterns", "4", "--picture", str(picture), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert list(report) == [
        "model",
        "patterns",
        "rehearsed",
        "memory_size",
        "wrong_before",
        "wrong_after",
        "write_seconds",
        "read_seconds",
        "picture",
    ]
    assert (report["model"], report["patterns"], report["memory_size"]) == ("omniglot-conv-9k", 4, 9232)
    assert 100 < report["wrong_before"] < 156
    assert report["wrong_after"] < report["wrong_before"] / 10
    assert report["rehearsed"] is None
    assert report["picture"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_model_of_strings_draws_strings(of_strings, tmp_path, capsys):
    picture = tmp_path / "strings.png"
    main(["recall", "--model", of_strings, "--picture", str(picture), "--seed", "3"])
    printed = capsys.readouterr().out
    for words in ("5 strings", "small-strings", "wrong bits of 32", "read step 2", "stored", "99 floats", "396 bytes"):
        assert words in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_json_is_all_that_is_printed_even_with_a_warning(of_strings, tmp_path, capsys):
    options = ["--patterns", "6", "--damage", "bits:0.25", "--picture", str(tmp_path / "out.png"), "--json"]
    main(["recall", "--model", of_strings, *options])
    captured = capsys.readouterr()
    assert json.loads(captured.out)["wrong_before"] < 8
    assert "6 patterns are more than the 5" in captured.err


def test_a_rehearsal_leaves_fewer_errors_and_is_told(of_strings, tmp_path, capsys):
    ends = {}
    for steps in (0, 400):
        options = ["--model", of_strings, "--patterns", "2", "--picture", str(tmp_path / "out.png")]
        main(["recall", *options, *(["--rehearse", str(steps)] if steps else []), "--json"])
        report = json.loads(capsys.readouterr().out)
        assert report["rehearsed"] == (steps or None)
        ends[steps] = report["wrong_after"]
    assert ends[400] < ends[0]
    main(["recall", *options, "--rehearse", "3"])
    printed = " ".join(capsys.readouterr().out.split())
    for words in ("3 steps of rehearsal", "compiling included"):
        assert words in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rehearse", "0"], "got 0 steps"),
        (["--picture", "missing/recall.png"], "--picture missing/recall.png: expected"),
        (["--picture", "recall.doc"], "--picture recall.doc: expected"),
        (["--model", "omniglot-conv-8k"], "Did you mean omniglot-conv-9k"),
        (["--model", "./nowhere"], "nowhere does not exist"),
        (["--patterns", "0"], "patterns: got 0"),
        (["--patterns", "1000"], "1000 to draw from 640"),
        (["--damage", "blok:3"], "damage 'blok:3': expected block:SIZE"),
        (["--damage", "block:40"], "expected at most 32"),
        (["--seed", "-1"], "seed: got -1"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"ebmm: .*{message}"):
        main(["recall", *options])
    assert not list(tmp_path.iterdir())


def test_a_model_of_other_patterns_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(SYSTEMS, "Associative", Associative)
    folder = str(tmp_path / "small")
    ebmm.Memory(Associative(), "small").save_pretrained(folder)
    with pytest.raises(SystemExit, match=r"small stores patterns of shape \(8, 8, 1\).*32×32"):
        main(["recall", "--model", folder, "--picture", str(tmp_path / "out.png")])
    assert not (tmp_path / "out.png").exists()


def test_strings_are_drawn_in_lines():
    assert tile_of((128,)) == (8, 16)
    assert tile_of((32,)) == (4, 8)
    assert tile_of((7,)) == (1, 7)
    assert tile_of((32, 30, 1)) == (32, 30)


def test_more_patterns_than_were_trained_for_are_warned_of(rnn):
    memory = ebmm.Memory(rnn, "small", trained={"patterns": 64, "error_by_patterns": {"64": 20, "128": 60}})
    assert load_warning(memory, 64) is None
    warning = load_warning(memory, 96)
    assert warning is not None
    assert "about 40 wrong values a pattern, not the about 20" in warning
    assert expected_error(memory.trained, 200) == "more than 60 wrong values"
    assert load_warning(ebmm.Memory(rnn, "small"), 1000) is None


def test_fewer_patterns_are_warned_of_where_they_are_recalled_worse(rnn):
    errors = {"8": 2, "32": 31, "64": 2, "96": 7}
    memory = ebmm.Memory(rnn, "small", trained={"patterns": 64, "error_by_patterns": errors})
    warning = load_warning(memory, 32)
    assert warning is not None
    assert "32 patterns are fewer than the 64" in warning
    assert "about 31 wrong values a pattern, not the about 2" in warning
    assert load_warning(memory, 8) is None  # as good as ever
    assert load_warning(ebmm.Memory(rnn, "small", trained={"patterns": 64}), 8) is None


def test_compiled_code_is_kept_unless_jax_was_told_where(tmp_path, monkeypatch):
    monkeypatch.setattr("ebmm.cli.compiled.user_folder", lambda: tmp_path)
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    keep_compiled()
    assert {name: getattr(jax.config, name) for name in names} == before
    try:
        jax.config.update(names[0], None)
        keep_compiled()
        assert Path(jax.config.jax_compilation_cache_dir).is_relative_to(tmp_path)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
