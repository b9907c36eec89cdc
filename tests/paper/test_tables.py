"""The published numbers, the cells on disk, and the rows of the table."""

import json
from functools import partial

import equinox as eqx
import jax
import pytest

from ebmm import Memory
from ebmm.baselines import SYSTEMS
from ebmm.evaluation.protocols import PROTOCOLS
from ebmm.experiments import EXPERIMENTS
from ebmm.paper import TABLES, Cell, experiment_at, load_cell, load_cells, patterns_at, save_cell
from ebmm.paper.cells import _command, _described, thinned
from ebmm.pretrained import NETWORKS, model_hash
from ebmm.rehearsal import Rehearsed
from ebmm.training.run import network_sizes

BINARY, BASELINES = TABLES["binary"], TABLES["baselines"]


def cell(system="mann", patterns=16, value=1.25, **more):
    iterates = [{"mean": value, "low": 0.0, "high": 2.0}]
    return Cell(system, patterns, 8256, value, 0.0, 2.0, 1000, iterates, **more)


def test_the_paper_s_numbers_are_there_for_all_its_systems():
    assert len(BINARY.published) == 8 * 5
    assert BINARY.published["ebmm-rnn", "96"] == 4.2
    assert BINARY.published["mann", "64"] == 4.25
    assert {row for row, _ in BINARY.published} == {system.published for system in BINARY.systems} - {None}
    assert "1910.02720" in BINARY.source


@pytest.mark.parametrize("column", BINARY.columns, ids=lambda column: column.name)
def test_every_cell_can_be_made_and_has_the_same_memory(column, key):
    """But for the modern Hopfield network, whose slots are the patterns."""
    patterns = column.patterns
    for system in (system for system, of in BINARY.places if of == column):
        name = experiment_at(system, column)
        if name is None:
            model = system.build(patterns)
            assert model.memory_size == (128 * patterns if system.name == "modern-hopfield" else 8256)
            continue
        experiment = EXPERIMENTS[name]
        assert experiment.settings.stages[-1].patterns == patterns
        kind = SYSTEMS.get(experiment.network)
        if kind is None:
            energy = eqx.filter_eval_shape(NETWORKS[experiment.network], **network_sizes(experiment), key=key)
            assert sum(array.size for array in jax.tree.leaves(energy.writable)) == 8256
        else:
            make = partial(kind, (experiment.bits,), domain=(-1.0, 1.0), **experiment.sizes)
            assert eqx.filter_eval_shape(make, key=key).memory_size == 8256


def test_a_cell_is_read_as_it_was_saved(tmp_path):
    saved = cell(updates=10, minutes=1.5, compile_minutes=0.5, curve={"update": [5], "error": [2.0]})
    path = save_cell(BINARY, saved, tmp_path)
    assert path.name == "mann-16.json"
    found = load_cell(path)
    assert found.origin == {"table": "binary"}
    assert (found.value, found.minutes, found.curve) == (1.25, 1.5, saved.curve)


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    (tmp_path / "small.json").write_text('{"wrong_bits": {}}')
    (tmp_path / "notes.json").write_text("{")
    save_cell(BINARY, cell(), tmp_path)
    assert list(load_cells(BINARY, tmp_path)) == [("mann", "16")]
    assert load_cells(BINARY, tmp_path / "missing") == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:40], "is not JSON .*--run"),
        (lambda text: "[]", "is no cell of a table"),
        (lambda text: text.replace('"version": 1', '"version": 99'), "has version 99"),
        (lambda text: text.replace('"value": 1.25', '"value": null'), "value is missing or no number"),
        (lambda text: text.replace('"batches"', '"bunches"'), "batches is missing or no number"),
        (lambda text: text.replace('"patterns": 16', '"patterns": 32'), "holds the cell of mann with 32 patterns"),
    ],
)
def test_a_broken_cell_is_refused_in_a_sentence(change, message, tmp_path):
    path = save_cell(BINARY, cell(), tmp_path)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=message):
        load_cells(BINARY, tmp_path)


def test_rows_and_columns_are_chosen_by_name():
    chosen = BINARY.chosen(("hopfield", "mann"), (64,))
    assert len(chosen.systems) == 7
    assert [column.patterns for column in chosen.columns] == [64]
    with pytest.raises(ValueError, match="--only man: expected .*mann"):
        BINARY.chosen(("man",))
    with pytest.raises(ValueError, match="--patterns 17: expected 16, 32"):
        BINARY.chosen((), (17,))
    assert [system.name for system in BASELINES.chosen(("vae",)).systems] == ["vae-50", "vae-100", "vae-200"]
    with pytest.raises(ValueError, match="--patterns 4: the table baselines has no such columns; .*--only"):
        BASELINES.chosen((), (4,))


def test_a_name_that_is_a_row_s_own_means_that_row_alone():
    assert [system.name for system in BINARY.chosen(("ebmm-rnn",)).systems] == ["ebmm-rnn"]
    both = BASELINES.chosen(("ebmm-conv-rehearsed", "ebmm-conv")).systems
    assert [system.name for system in both] == ["ebmm-conv", "ebmm-conv-rehearsed"]


@pytest.mark.parametrize(("table", "patterns", "steps"), [(BINARY, 32, 800), (BINARY, 96, 2400), (BASELINES, 64, 1280)])
def test_rehearsed_rows_are_the_bundled_models_and_practise_what_is_tested(table, patterns, steps):
    (system,) = (system for system in table.systems if system.name.endswith("-rehearsed"))
    model = system.build(patterns)
    assert isinstance(model, Rehearsed)
    column = next(column for column in table.columns if column.patterns in (patterns, None))
    protocol = PROTOCOLS[column.on]
    assert (model.rehearsal.damage.name, model.rehearsal.reveal) == (protocol.damage, protocol.reveal)
    assert model.rehearsal.steps == steps
    memory = Memory.from_pretrained(system.bundled)
    assert eqx.tree_equal(model.model, memory.model_for(patterns, careful=False))
    described = _described(model)
    assert described["rehearsal"]["steps"] == steps
    if patterns >= 64:  # fewer are written with shorter steps, which makes it another model
        assert described["hash"] == model_hash(memory.model)
    assert system.is_learned


def test_the_checked_row_is_the_bundled_model_as_a_memory_writes_it():
    (system,) = (system for system in BINARY.systems if system.name == "ebmm-rnn-checked")
    memory = Memory.from_pretrained("binary-rnn")
    for patterns in (16, 64, 96):
        assert eqx.tree_equal(system.build(patterns), memory.model_for(patterns))
    assert "careful" not in _described(system.build(64))
    described = _described(system.build(96))
    assert described["hash"] == model_hash(memory.model)
    assert described["careful"]["lengths"][0] == 1
    assert system.is_learned


def test_a_long_curve_is_averaged_and_its_gaps_left_out():
    lines = [{"update": 25 * (i + 1), "error": None if i == 3 else float(i)} for i in range(1000)]
    curve = thinned(lines)
    assert len(curve["update"]) == len(curve["error"]) == 100
    assert curve["update"][-1] == 25_000
    assert curve["error"] == sorted(curve["error"])
    assert thinned([]) == {"update": [], "error": []}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "ebmm train binary-64 --out /tmp/x --times 4",
            "ebmm train binary-64 --out runs/binary-64 --times 4 && ebmm table",
        ),
        ("ebmm train binary-64 --start=/tmp/m --out=/tmp/x", "--start=MODEL --out=runs/binary-64 &&"),
        ("ebmm train binary-64 --out /tmp/x=1 --seed 3", "--out runs/binary-64 --seed 3 &&"),
        ("ebmm train binary-64 --start binary-rnn --out /tmp/x", "--start binary-rnn --out runs/binary-64 &&"),
        ("python /tmp/script.py", "ebmm train binary-64 --out runs/binary-64 --seed 3 && ebmm table binary --add"),
        ("ebmm table binary --run --runs /tmp/x", "ebmm table binary --run --only ebmm-rnn --patterns 64 --seed 3"),
    ],
)
def test_the_command_of_a_cell_names_no_folder_of_the_machine_it_was_made_on(command, expected):
    config = {"experiment": {"name": "binary-64"}, "command": command, "seed": 3}
    (system,) = BINARY.chosen(("ebmm-rnn",)).systems
    found = _command(BINARY, system, BINARY.columns[3], config)
    assert expected in found
    assert "/tmp" not in found


def test_the_numbers_of_other_systems_are_the_paper_s_and_say_where_they_are_not():
    assert BASELINES.published["autoencoder", "salt"] == 9.57
    assert ("mann", "salt") not in BASELINES.published
    shown = {system.published for system in BASELINES.systems} - {None}
    assert {row for row, _ in BASELINES.published} == shown
    assert set(BASELINES.notes) <= shown
    assert BASELINES.notes["memory-network"].startswith("interpolated")
    assert 3.27 < BASELINES.published["memory-network", "block"] < 4.64


def test_every_cell_of_the_other_systems_can_be_made():
    """What sees damage in training has seen that of its column, as many patterns as its row says."""
    learns_undamaged = ("omniglot-vae", "omniglot-kanerva-4", "omniglot-kanerva-64")
    for system, column in BASELINES.places:
        name = experiment_at(system, column)
        assert [name, system.build, system.yardstick].count(None) == 2
        if name is not None:
            assert EXPERIMENTS[name].settings.stages[-1].patterns == patterns_at(system, column)
            assert name in learns_undamaged or EXPERIMENTS[name].on == column.on
        elif system.build is not None:
            assert system.build(patterns_at(system, column)).pattern_shape == (32, 32, 1)
    assert "ebmm-conv" not in [system.name for system, column in BASELINES.places if column.name == "salt"]


def test_a_cell_of_a_kind_of_damage_is_named_after_it(tmp_path):
    saved = cell("vae-50", 64, damage="salt")
    path = save_cell(BASELINES, saved, tmp_path)
    assert path.name == "vae-50-salt.json"
    assert list(load_cells(BASELINES, tmp_path)) == [("vae-50", "salt")]
    path.write_text(path.read_text().replace('"salt"', '"block"'))
    with pytest.raises(ValueError, match="holds the cell of vae-50 with block: it is misnamed"):
        load_cell(path)


def test_a_cell_from_before_there_were_kinds_of_damage_is_read(tmp_path):
    path = save_cell(BINARY, cell(), tmp_path)
    content = json.loads(path.read_text())
    del content["damage"]
    path.write_text(json.dumps(content))
    assert load_cell(path).column == "16"
